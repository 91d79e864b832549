// Preloaded when BENCH_PROF is set: the threads of a process are profiled, too (the SDK ends its thread without a word,
// so theirs is written each second), and a program that is asked to end does so in a way that lets Node write its own.
import { writeFileSync } from 'node:fs';
import inspector from 'node:inspector';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import threads from 'node:worker_threads';

if (threads.isMainThread) {
  const Plain = threads.Worker;
  threads.Worker = class Worker extends Plain {
    constructor(file, options) {
      super(file, {
        ...options,
        execArgv: ['--import', import.meta.url],
        env: { ...process.env, BENCH_PROF_THREAD: folder() },
      });
    }
  };
  syncBuiltinESMExports();
  if (process.send !== undefined) process.on('SIGTERM', () => process.exit(0));
} else {
  profileThread(process.env.BENCH_PROF_THREAD);
}

function folder() {
  return process.execArgv[process.execArgv.indexOf('--cpu-prof-dir') + 1];
}

function profileThread(into) {
  const session = new inspector.Session();
  session.connect();
  const begin = () => session.post('Profiler.start');
  session.post('Profiler.enable');
  begin();
  let part = 0;
  const write = () =>
    session.post('Profiler.stop', (_, { profile }) => {
      writeFileSync(path.join(`${into}-thread`, `${process.pid}.${part++}.cpuprofile`), JSON.stringify(profile));
      begin();
    });
  setInterval(write, 1000).unref();
}

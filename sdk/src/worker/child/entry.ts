// The child process of a handler: loads the module it is told, runs one run at a time and says how it went. Started by
// child.ts with the module, the export and the worker's process id as arguments. It ends with its worker: at once when the
// channel closes, and within a second when its own event loop is blocked (life-line.ts).
import { Worker as Thread } from 'node:worker_threads';
import type { Grant } from '@punctual/contract';
import { contextOf, tracing } from '../../tracing.ts';
import type { Handler } from '../active-run.ts';
import { resultText } from '../outcome.ts';
import { ChildContext } from './context.ts';
import { toChildError } from './errors.ts';
import type { FromChild, Said, ToChild } from './messages.ts';

const [module = '', name = 'default', parent = '0'] = process.argv.slice(2);
let current: { n: number; ctx: ChildContext } | null = null;

process.once('disconnect', leave);
if (!process.connected) leave();
new Thread(new URL('./life-line.js', import.meta.url), { workerData: Number(parent), execArgv: [] }).unref();
// The worker says why with a message of its own; from anybody else it means that the process is to end.
process.on('SIGTERM', () => {
  if (current === null) process.exit(0);
  current.ctx.abort('shutdown', 'The process was told to end.');
});
process.on('uncaughtException', (error) => {
  const failed = toChildError(error);
  const said: FromChild = {
    kind: 'failed',
    n: current?.n ?? 0,
    ends: true,
    error: { ...failed, message: `The handler threw where nobody could catch it: ${failed.message}` },
  };
  // What state the process is in nobody knows: it ends, once this is said.
  process.send?.(said, () => process.exit(1));
});

const handler = load();
handler.catch(() => undefined); // told with the first run
process.on('message', (message: ToChild) => {
  if (message.kind === 'run') void start(message);
  else if (message.n !== current?.n)
    return; // it comes too late
  else if (message.kind === 'abort') current.ctx.abort(message.reason, message.message);
  else current.ctx.answered(message);
});

/** With everything it started. */
function leave(): void {
  process.once('exit', () => {
    try {
      process.kill(-process.pid, 'SIGKILL');
    } catch {
      // It has no group of its own here.
    }
  });
  process.exit(0);
}

async function load(): Promise<Handler> {
  const loaded = (await import(module)) as Record<string, unknown>;
  const found = loaded[name];
  if (typeof found === 'function') return found as Handler;
  throw new Error(`The module ${module} exports no function ${name}.`);
}

/** Lines on their way to the worker; more are dropped and counted, so that a flood of them takes no memory. */
const max_lines_on_the_way = 1_000;
let linesOnTheWay = 0;
let dropped = 0;

function sayLine(message: object, n: number): void {
  if (linesOnTheWay >= max_lines_on_the_way) {
    dropped++;
    return;
  }
  linesOnTheWay++;
  process.send?.({ ...message, n }, () => {
    linesOnTheWay--;
    if (dropped === 0 || linesOnTheWay > 0) return;
    const words = `${dropped} log lines were dropped here: the handler logs faster than its lines can be sent.`;
    dropped = 0;
    sayLine({ kind: 'log', level: 'warn', message: words }, n);
  });
}

/** The span of the attempt is made by the worker; what the handler makes here are children of it. */
function inTrace(handle: Handler, run: Grant, ctx: ChildContext): unknown {
  const api = tracing();
  return api === null ? handle(run, ctx) : api.context.with(contextOf(api, run.traceparent), () => handle(run, ctx));
}

async function start({ n, run }: Extract<ToChild, { kind: 'run' }>): Promise<void> {
  const say = (message: { kind: FromChild['kind'] }, sent?: () => void): void => {
    if (!process.connected) return;
    if (message.kind === 'log' || message.kind === 'output') sayLine(message, n);
    else process.send?.({ ...message, n }, () => sent?.());
  };
  const ctx = new ChildContext(run, say);
  current = { n, ctx };
  let end: Said;
  try {
    end = { kind: 'done', result: resultText(await inTrace(await handler, run, ctx)) };
  } catch (error) {
    end = { kind: 'failed', error: toChildError(error) };
  }
  current = null;
  ctx.end();
  say(end);
}

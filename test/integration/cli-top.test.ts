// `punctual top` on a real terminal: it draws, hears keys, follows the size, and leaves the terminal as it was.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { after, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { cleanEnvironment, program } from '../support/process.ts';
import { terminalOf } from '../support/terminal.ts';

// Leases long enough for a busy machine: what is counted must not change meanwhile.
const house = await openHouse({
  config: { lease_ms: 30_000, lease_margin_ms: 3_000, heartbeat_ms: 2_000 },
  workers: 1,
  handlers: {
    hold: (_, ctx) =>
      new Promise((_resolve, reject) => ctx.signal.addEventListener('abort', () => reject(new Error('told to end')))),
  },
});
after(() => house[Symbol.asyncDispose]());
const { ask, succeeds, parsed } = terminalOf(house);
await house.client.jobs.create({ type: 'hold', queue: 'busy', max_retries: 0 });
await house.client.jobs.create({ type: 'nobody', queue: 'idle' });
await eventually(async () => assert.equal((await house.client.stats()).running, 1));

test('--once prints a frame, and with --json its data', async () => {
  const all = await succeeds(['top', '--once']);
  assert.match(all, /QUEUE +WAIT +OLDEST/);
  assert.match(all, /TYPE +FOR +RUN[^\n]*\nhold/);
  assert.match(await succeeds(['top', '--once', '--view', 'workers']), /\[workers\][\s\S]*1\/5/);
  const data = await parsed<{ stats: { running: number }; running: unknown[]; workers: unknown[] }>(['top', '--once']);
  assert.deepEqual([data.stats.running, data.running.length, data.workers.length], [1, 1, 1]);
});

test('without a terminal it says what to do instead', async () => {
  for (const words of [['top'], ['top', '--json']]) {
    const { code, stdout, stderr } = await ask(words);
    assert.deepEqual([code, stdout], [2, '']);
    assert.match(stderr, /--once prints one frame/);
  }
  assert.equal((await ask(['top', '--once', '--view', 'moon'])).code, 2);
  assert.match((await ask(['top', '--once', '--url', 'http://127.0.0.1:9'])).stderr, /no Punctual server answers/);
});

const skip = spawnSync('script', ['--version']).status !== 0 && 'no `script` of util-linux here';
const open: ReturnType<typeof spawn>[] = [];
after(() => {
  for (const child of open) child.kill('SIGKILL');
});
const leave = '\u001b[?25h\u001b[?1049l';

/** Runs it in a pseudo-terminal of 24 × 90; the shell around it says which, how it ended, and how the terminal is then. */
function openTerminal(words = '') {
  const inside = `stty rows 24 cols 90; echo "tty=$(tty)"; '${process.execPath}' '${program}' top --every 0.5 ${words}; echo "code=$?"; stty -a`;
  const env = cleanEnvironment({ PUNCTUAL_URL: house.url, TZ: 'UTC', TERM: 'xterm' });
  const child = spawn('script', ['-qec', inside, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (data: Buffer) => {
    text += data.toString();
  });
  // What it wrote last is read by then.
  const ended = once(child, 'close');
  open.push(child);
  return {
    child,
    text: () => text,
    shows: (pattern: RegExp, from = 0) => eventually(() => assert.match(text.slice(from), pattern)),
    ended: async (code: number) => {
      await ended;
      assert.match(text, new RegExp(`code=${code}\\r?\\n`));
      assert.ok(text.includes(leave), 'the cursor and the other screen are given back');
      assert.match(text.slice(text.indexOf('code=')), / icanon[\s\S]* echo /, 'keys are lines again');
    },
  };
}

test('it draws on a terminal, hears keys, follows its size and gives it back at q', { skip }, async () => {
  const terminal = openTerminal();
  await terminal.shows(/\u001b\[\?1049h[\s\S]*\[overview\] queues workers/);
  terminal.child.stdin.write('\u001b[C');
  await terminal.shows(/overview \[queues\][\s\S]*by waiting/);
  terminal.child.stdin.write('j');
  await terminal.shows(/by oldest/);
  terminal.child.stdin.write('p');
  await terminal.shows(/PAUSED/);
  const [, tty = ''] = /tty=(\S+)/.exec(terminal.text()) ?? [];
  const before = terminal.text().length;
  execFileSync('stty', ['-F', tty, 'cols', '50', 'rows', '12']);
  await terminal.shows(/\u001b\[H/, before);
  // Rows and columns may change one after the other.
  await eventually(() => {
    const last = terminal.text().slice(terminal.text().lastIndexOf('\u001b[H'));
    const lines = last.replaceAll(/\u001b\[[\d?]*[A-Za-z]/g, '').split(/\r?\n/);
    assert.ok(lines.length <= 12 && lines.every((line) => line.length <= 50), JSON.stringify(lines));
  });
  terminal.child.stdin.write('q');
  await terminal.ended(0);
});

test('Ctrl-C, a signal and the end of the server leave the terminal as it was', { skip }, async () => {
  const interrupted = openTerminal();
  await interrupted.shows(/\[overview\]/);
  interrupted.child.stdin.write('\u0003');
  await interrupted.ended(0);

  const server = await house.addServer();
  const killed = openTerminal(`--url ${server.url}`);
  await killed.shows(/\[overview\]/);
  await server.stop();
  house.servers.splice(house.servers.indexOf(server), 1);
  await killed.shows(/Asking again/);
  const [, tty = ''] = /tty=\/dev\/(\S+)/.exec(killed.text()) ?? [];
  const [pid = ''] = execFileSync('ps', ['-t', tty, '-o', 'pid=,args='])
    .toString()
    .split('\n')
    .filter((line) => line.includes(' top ') && !line.includes('stty'))
    .map((line) => line.trim().split(' ')[0]);
  process.kill(Number(pid), 'SIGTERM');
  await killed.ended(143);
});

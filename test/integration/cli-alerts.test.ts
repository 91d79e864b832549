// `punctual alerts` against a real house.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Alert, AlertRule, Delivery } from '@punctual/contract';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { Receiver } from '../support/receiver.ts';
import { terminalOf } from '../support/terminal.ts';

const receiver = await new Receiver().listen();
const house = await openHouse({
  config: { alert_interval_ms: 100, http_allow: ['127.0.0.1'], delivery_max_attempts: 1 },
});
after(async () => {
  await house[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});
const { ask, succeeds, parsed } = terminalOf(house);

test('a channel is set up and tested, a rule watches, its alert is listed and acknowledged', async () => {
  const made = await succeeds(['alerts', 'channel', 'on-call', '--webhook', receiver.url('/c')]);
  assert.match(made, /^on-call tells http.*\/c\nits secret, shown only now: whsec_/);
  assert.equal(await succeeds(['alerts', 'test', 'on-call']), 'the test has arrived (204)\n');
  const rule = ['alerts', 'rule', 'beat', '--kind', 'missed', '--queue', 'none', '--period', '1s', '--wait', '0s'];
  assert.equal(
    await succeeds([...rule, '--channel', 'on-call']),
    'beat fires when no run in queue none succeeded for 1 s\n',
  );
  await receiver.got('/c', 2);
  assert.match(await succeeds(['alerts', 'rules']), /beat +1 +on-call/);
  const { alerts } = await parsed<{ alerts: Alert[] }>(['alerts', 'list', '--state', 'firing']);
  assert.match(
    await succeeds(['alerts', 'ack', alerts[0]?.alert_id ?? '', '--by', 'ana']),
    /beat is looked after by ana/,
  );
  assert.match(await succeeds(['alerts', 'list']), /acknowledged +beat/);
  assert.match(await succeeds(['alerts', 'silence', 'move', '--rule', 'beat', '--for', '2h']), /^beat is silent until/);
  assert.match(await succeeds(['alerts', 'silences']), /move +beat +all/);
  const off = await parsed<AlertRule>([...rule, '--disable', '--no-resolved']);
  assert.deepEqual([off.enabled, off.definition.notify_resolved], [false, false]);
  await succeeds(['alerts', 'rule', 'beat', '--remove']);
  await succeeds(['alerts', 'channel', 'on-call', '--remove']);
});

test('dead deliveries are listed and redriven, and a test that does not arrive fails', async () => {
  receiver.answer = (_call, response) => void response.writeHead(500).end();
  await succeeds(['alerts', 'channel', 'broken', '--slack', receiver.url('/broken')]);
  const failed = await ask(['alerts', 'test', 'broken']);
  assert.deepEqual([failed.code, /status 500/.test(failed.stdout)], [1, true]);
  await succeeds([
    'alerts',
    'rule',
    'r',
    '--kind',
    'missed',
    '--period',
    '100ms',
    '--wait',
    '0s',
    '--channel',
    'broken',
  ]);
  const [dead] = await eventually(async () => {
    const { deliveries } = await parsed<{ deliveries: Delivery[] }>(['alerts', 'deliveries', '--state', 'dead']);
    assert.ok(deliveries.length > 0);
    return deliveries;
  });
  receiver.answer = (_call, response) => void response.writeHead(200).end();
  assert.equal(await succeeds(['alerts', 'redrive', dead?.delivery_id ?? '']), 'it is being sent again\n');
  await eventually(async () =>
    assert.match(await succeeds(['alerts', 'deliveries', '--channel', 'broken']), /delivered +broken +alert.firing/),
  );
  assert.equal(await succeeds(['alerts', 'redrive', '--channel', 'broken']), '0 are being sent again\n');
});

test('subscriptions to events are made, listed and removed', async () => {
  const words = [
    'alerts',
    'subscribe',
    'etl',
    '--to',
    receiver.url('/e'),
    '--event',
    'run.failed',
    '--event',
    'run.dead',
  ];
  assert.match(await succeeds(words), /^run.failed, run.dead go to http.*\/e\nits secret/);
  assert.match(await succeeds(['alerts', 'subscriptions']), /etl +on +run.failed, run.dead/);
  assert.match(await succeeds(['alerts', 'subscribe', 'etl', '--test']), /^the test has arrived/);
  assert.equal(await succeeds(['alerts', 'subscribe', 'etl', '--pause']), 'the subscription etl is paused\n');
  assert.match(await succeeds(['alerts', 'subscriptions']), /etl +paused/);
  assert.equal(await succeeds(['alerts', 'subscribe', 'etl', '--resume']), 'the subscription etl goes on\n');
  await succeeds(['alerts', 'subscribe', 'etl', '--remove']);
});

test('what cannot be is refused', async () => {
  for (const words of [
    ['rule', 'x'],
    ['rule', 'x', '--kind', 'bogus'],
    ['channel', 'x'],
    ['channel', 'x', '--webhook', 'http://a.example', '--slack', 'http://b.example'],
    ['silence', 'x'],
    ['redrive'],
    ['subscribe', 'x', '--to', 'http://a.example'],
  ])
    assert.equal((await ask(['alerts', ...words])).code, 2, words.join(' '));
  assert.equal((await ask(['alerts', 'rule', 'x', '--remove'])).code, 1);
});

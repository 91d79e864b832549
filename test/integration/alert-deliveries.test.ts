// Deliveries of alerts and events: a receiver that is down, slow or unwilling, a server that dies in between, dead deliveries,
// signatures, addresses that may not be called, Slack, e-mail, and subscriptions to events.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { FatalError } from '@punctual/sdk';
import { endDelivery, takeDeliveries, writeDeliveries } from '@punctual/server/internal/store/deliveries';
import { readEvents } from '@punctual/server/internal/store/events';
import { SMTPServer } from 'smtp-server';
import { Webhook } from 'standardwebhooks';
import { eventually } from '../support/eventually.ts';
import { openHouse } from '../support/house.ts';
import { freePort } from '../support/port.ts';
import { Receiver } from '../support/receiver.ts';

const receiver = await new Receiver().listen();
const house = await openHouse({
  servers: 2,
  config: {
    alert_interval_ms: 100,
    http_allow: ['127.0.0.1'],
    delivery_backoff_ms: 40,
    delivery_timeout_ms: 6_000,
    delivery_max_attempts: 7,
  },
});
await house.addWorker({
  echo: async (run) => run.payload,
  fails: async () => {
    throw new FatalError('out of paper');
  },
});
after(async () => {
  await house[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});
const { alerts, jobs, events } = house.client;
const message = {
  event: 'alert.firing',
  rule: 'r',
  kind: 'missed',
  note: null,
  total: 0,
  alerts: [],
  timestamp: '2030-01-01T00:00:00.000Z',
};

/** Something to deliver by a channel, without a rule. */
async function write(channel: string, event_id: string): Promise<void> {
  const body = JSON.stringify(message);
  await writeDeliveries(house.db, [{ target_kind: 'channel', target: channel, event: 'alert.firing', event_id, body }]);
}

const delivery = async (channel: string) => (await alerts.deliveries.list({ channel })).deliveries[0];

const inState = (channel: string, state: string) =>
  eventually(async () => {
    const found = await delivery(channel);
    assert.equal(found?.state, state, JSON.stringify(found));
    return found;
  });

describe('webhooks', { concurrency: true }, () => {
  test('a receiver that fails gets it again with the same id, and each call is signed anew', async () => {
    const { secret } = await alerts.channels.put('again', { kind: 'webhook', url: receiver.url('/again') });
    const plain = receiver.answer;
    receiver.answer = (call, response, n) => {
      if (call.path === '/again' && receiver.of('/again').length < 3) response.writeHead(500).end('not now');
      else plain(call, response, n);
    };
    await write('again', 'e-again');
    const calls = await receiver.got('/again', 3);
    assert.deepEqual([...new Set(calls.map(({ headers }) => headers['webhook-id']))], ['e-again']);
    for (const { body, headers } of calls)
      assert.ok(new Webhook(secret ?? '').verify(body, headers as Record<string, string>));
    assert.throws(() =>
      new Webhook(secret ?? '').verify(`${calls[0]?.body} `, calls[0]?.headers as Record<string, string>),
    );
    const done = await inState('again', 'delivered');
    assert.deepEqual([done.attempts, done.status], [3, 204]);
  });

  test('a receiver that is not there is tried until it is', async () => {
    const port = await freePort();
    await alerts.channels.put('down', { kind: 'webhook', url: `http://127.0.0.1:${port}/down` });
    await write('down', 'e-down');
    await eventually(async () => assert.match((await delivery('down'))?.error ?? '', /ECONNREFUSED/));
    await using back = await new Receiver().listen(port);
    await back.got('/down');
    await inState('down', 'delivered');
  });

  test('a receiver that asks for time with 429 and Retry-After gets it', async () => {
    await using busy = await new Receiver().listen();
    busy.answer = (_call, response, n) => {
      if (n === 1) response.writeHead(429, { 'retry-after': '1' }).end();
      else response.writeHead(200).end();
    };
    await alerts.channels.put('busy', { kind: 'webhook', url: busy.url('/busy') });
    await write('busy', 'e-busy');
    const [first, second] = await busy.got('/busy', 2);
    assert.ok((second?.atMs ?? 0) - (first?.atMs ?? 0) >= 950);
  });

  test('a receiver that never answers takes a few calls at a time, and neither jobs nor other channels wait for it', async () => {
    await using slow = await new Receiver().listen();
    let open = 0;
    let most = 0;
    slow.answer = (_call, response) => {
      most = Math.max(most, ++open);
      response.on('close', () => open--);
    };
    await alerts.channels.put('slow', { kind: 'webhook', url: slow.url('/slow') });
    await alerts.channels.put('quick', { kind: 'webhook', url: receiver.url('/quick') });
    for (let i = 0; i < 30; i++) await write('slow', `e-slow-${i}`);
    await slow.got('/slow', 4);
    await write('quick', 'e-quick');
    const began = performance.now();
    await receiver.got('/quick');
    const { job_id } = await jobs.create({ name: 'n', type: 'echo' });
    assert.equal((await house.ended(job_id)).status, 'SUCCESS');
    assert.ok(performance.now() - began < 20_000, 'it waited for the one that never answers');
    await eventually(async () => {
      const { deliveries } = await alerts.deliveries.list({ channel: 'slow' });
      assert.ok(deliveries.some(({ error }) => /no answer in time/.test(error ?? '')));
    });
    assert.ok(most <= 8, `${most} calls at once by two servers`);
    await alerts.channels.delete('slow');
    assert.equal(await house.count('deliveries', `where target = 'slow'`), 0);
  });

  test('a delivery that was given up is listed, and sent again with the same id when it is redriven', async () => {
    await using broken = await new Receiver().listen();
    let isMended = false;
    broken.answer = (_call, response) => void response.writeHead(isMended ? 200 : 503).end('broken');
    await alerts.channels.put('dead', { kind: 'webhook', url: broken.url('/dead') });
    await write('dead', 'e-dead');
    const dead = await inState('dead', 'dead');
    assert.deepEqual([dead.attempts, dead.status, dead.next_at], [7, 503, null]);
    assert.match(dead.error ?? '', /status 503: broken/);
    assert.equal((await alerts.channels.get('dead')).dead, 1);
    assert.ok(
      (await alerts.deliveries.list({ state: 'dead' })).deliveries.some(({ event_id }) => event_id === 'e-dead'),
    );
    isMended = true;
    await alerts.deliveries.redrive(dead.delivery_id);
    await inState('dead', 'delivered');
    assert.deepEqual([...new Set(broken.calls.map(({ headers }) => headers['webhook-id']))], ['e-dead']);
    await assert.rejects(alerts.deliveries.redrive(dead.delivery_id), { code: 'delivery_not_found' });
    isMended = false;
    await write('dead', 'e-dead-2');
    await inState('dead', 'dead');
    assert.deepEqual(await alerts.deliveries.redriveAll({ channel: 'dead' }), { redriven: 1 });
    assert.deepEqual(await alerts.deliveries.redriveAll({ channel: 'another' }), { redriven: 0 });
  });

  test('a private address that no setting allows is not called, in any spelling, and the delivery says why', async () => {
    for (const [i, host] of ['10.0.0.1', '[::1]', '0x7f.0.0.2', '169.254.169.254'].entries()) {
      const name = `inside-${i}`;
      await alerts.channels.put(name, { kind: 'webhook', url: `http://${host}:${receiver.port}/inside` });
      const tested = await alerts.channels.test(name);
      assert.equal(tested.delivered, false);
      assert.match(tested.error ?? '', /not a public address.*PUNCTUAL_HTTP_ALLOW of the server/);
    }
    await write('inside-0', 'e-inside');
    assert.equal((await inState('inside-0', 'dead')).attempts, 1);
    assert.equal(receiver.of('/inside').length, 0);
  });

  test('a channel can be tested, and never shows what is secret', async () => {
    const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    const put = await alerts.channels.put('tested', {
      kind: 'webhook',
      url: receiver.url('/tested?token=t0psecret'),
      secret,
    });
    assert.equal(put.secret, null);
    assert.deepEqual(await alerts.channels.test('tested'), { delivered: true, status: 204, error: null });
    const [call] = await receiver.got('/tested?token=t0psecret');
    assert.ok(new Webhook(secret).verify(call?.body ?? '', call?.headers as Record<string, string>));
    const shown = JSON.stringify([await alerts.channels.get('tested'), await alerts.channels.list()]);
    assert.ok(!shown.includes('t0psecret') && !shown.includes(secret), shown);
    assert.equal((await alerts.channels.get('tested')).has_secret, true);
    // Put again without it, the secret is kept as long as the place is the same.
    assert.equal(
      (await alerts.channels.put('tested', { kind: 'webhook', url: receiver.url('/tested?token=t0psecret') })).secret,
      null,
    );
    assert.match(
      (await alerts.channels.put('tested', { kind: 'webhook', url: receiver.url('/moved') })).secret ?? '',
      /^whsec_/,
    );
  });

  test('Slack gets a text, and its URL is not shown', async () => {
    await alerts.channels.put('slack', { kind: 'slack', url: receiver.url('/services/T0/B0/key') });
    assert.equal((await alerts.channels.test('slack')).delivered, true);
    const [call] = await receiver.got('/services/T0/B0/key');
    assert.match(String(call?.json['text']), /^\*\[FIRING\] test: This is a test of the channel slack\*/);
    assert.equal(call?.headers['webhook-signature'], undefined);
    assert.ok(!JSON.stringify(await alerts.channels.get('slack')).includes('/services'));
  });

  test('a url that is left out is kept, and shown only where nothing of it is secret', async () => {
    await alerts.channels.put('kept', { kind: 'slack', url: receiver.url('/services/kept') });
    const put = await alerts.channels.put('kept', { kind: 'slack', note: 'a word' });
    assert.deepEqual(put.definition, { kind: 'slack', url: `${new URL(receiver.url('/')).origin}/…`, note: 'a word' });
    assert.equal((await alerts.channels.test('kept')).delivered, true);
    await receiver.got('/services/kept');
    for (const name of ['kept', 'nowhere'])
      await assert.rejects(
        alerts.channels.put(name, { kind: 'webhook' }),
        (error: { code: string; errors?: { path: string }[] }) => {
          assert.deepEqual([error.code, error.errors?.[0]?.path], ['invalid_input', 'url']);
          return true;
        },
      );
    const hidden = await alerts.channels.put('hidden', { kind: 'webhook', url: receiver.url('/h?token=t0psecret') });
    assert.equal(hidden.definition.url, `${receiver.url('/h')}?…`);
    const again = await alerts.channels.put('hidden', { kind: 'webhook', note: 'n' });
    assert.deepEqual([again.secret, again.definition.url], [null, hidden.definition.url]);
  });
});

test('a server that dies in the middle of a delivery loses nothing: another sends it, with the same id', async () => {
  await using other = await openHouse({ servers: 0, config: { http_allow: ['127.0.0.1'] } });
  const definition = JSON.stringify({ kind: 'webhook', url: receiver.url('/orphan') });
  await other.db.query({
    name: '',
    text: `insert into punctual.alert_channels (name, kind, definition) values ('orphan', 'webhook', $1)`,
    values: [definition],
  });
  const body = JSON.stringify(message);
  await writeDeliveries(other.db, [
    { target_kind: 'channel', target: 'orphan', event: 'alert.firing', event_id: 'e-orphan', body },
  ]);
  // The server that dies: it took it, and is not heard of again.
  const [dying] = await takeDeliveries(other.db, { each: 4, limit: 4, busy: [], leaseMs: 700 });
  assert.ok(dying);
  await other.addServer();
  const [call] = await receiver.got('/orphan');
  assert.equal(call?.headers['webhook-id'], 'e-orphan');
  const state = async () => (await other.client.alerts.deliveries.list()).deliveries[0];
  await eventually(async () => assert.deepEqual([(await state())?.state, (await state())?.attempts], ['delivered', 2]));
  // It was only frozen, and comes back: its lease has moved on.
  assert.equal(await endDelivery(other.db, dying, { state: 'dead', in_ms: null, status: 500, error: 'late' }), false);
  assert.equal((await state())?.state, 'delivered');
  assert.equal(receiver.of('/orphan').length, 1);
});

test('two servers that take deliveries at the same moment never take the same', async () => {
  await using closed = await openHouse({ servers: 0 });
  await closed.db.query({
    name: '',
    text: `insert into punctual.alert_channels (name, kind, definition) values ('c', 'webhook', '{}')`,
    values: [],
  });
  await writeDeliveries(
    closed.db,
    Array.from({ length: 40 }, (_, i) => ({
      target_kind: 'channel' as const,
      target: 'c',
      event: 'alert.firing',
      event_id: `e${i}`,
      body: '{}',
    })),
  );
  const take = () => takeDeliveries(closed.db, { each: 10, limit: 64, busy: [], leaseMs: 60_000 });
  const taken = (await Promise.all([take(), take(), take(), take()])).flat();
  assert.equal(new Set(taken.map(({ delivery_id }) => delivery_id)).size, taken.length);
  const busy = [{ target_kind: 'channel' as const, target: 'c', n: 9 }];
  assert.ok((await takeDeliveries(closed.db, { each: 10, limit: 64, busy, leaseMs: 60_000 })).length <= 1);
});

describe('e-mail', () => {
  const mails: { from: string; to: string[]; text: string; user: string | undefined }[] = [];
  const smtp = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onAuth: (auth, _session, done) =>
      auth.password === 'correct' ? done(null, { user: auth.username ?? '' }) : done(new Error('wrong password')),
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope;
        mails.push({
          from: mailFrom === false ? '' : mailFrom.address,
          to: rcptTo.map(({ address }) => address),
          text: Buffer.concat(chunks).toString(),
          user: session.user,
        });
        done();
      });
    },
  });
  before(() => new Promise<void>((resolve) => void smtp.listen(0, '127.0.0.1', resolve)));
  after(() => new Promise<void>((resolve) => smtp.close(() => resolve())));
  const port = () => (smtp.server.address() as { port: number }).port;

  test('an alert comes as a mail with subject and text', async () => {
    await alerts.channels.put('mail', {
      kind: 'email',
      smtp: { host: '127.0.0.1', port: port(), tls: 'none' },
      from: 'punctual@example.com',
      to: ['ana@example.com', 'bo@example.com'],
    });
    await alerts.rules.put('mailed', { kind: 'missed', queue: 'mail', period_ms: 100, wait_ms: 0, channels: ['mail'] });
    const mail = await eventually(() => mails[0] ?? assert.fail('no mail'));
    assert.deepEqual([mail.from, mail.to], ['punctual@example.com', ['ana@example.com', 'bo@example.com']]);
    assert.match(mail.text, /Subject: \[FIRING\] mailed: Nothing has succeeded/);
    await alerts.rules.delete('mailed');
    assert.match((await alerts.channels.get('mail')).target, /^ana@example.com, bo@example.com by 127.0.0.1:/);
  });

  test('a mail server that wants TLS it does not get, or is not there, is an error that says so', async () => {
    const base = { kind: 'email' as const, from: 'a@example.com', to: ['b@example.com'] };
    await alerts.channels.put('strict', {
      ...base,
      smtp: { host: '127.0.0.1', port: port(), user: 'u', password: 'correct' },
    });
    const strict = await alerts.channels.test('strict');
    assert.equal(strict.delivered, false);
    assert.match(strict.error ?? '', /STARTTLS/i);
    assert.ok(!JSON.stringify(await alerts.channels.list()).includes('correct'));
    await alerts.channels.put('absent', { ...base, smtp: { host: '127.0.0.1', port: 1, tls: 'none' } });
    assert.match((await alerts.channels.test('absent')).error ?? '', /ECONNREFUSED/);
    await alerts.channels.put('private', { ...base, smtp: { host: '10.0.0.1', port: 25 } });
    assert.match((await alerts.channels.test('private')).error ?? '', /not a public address/);
  });
});

describe('events', () => {
  test('ends of runs come as signed CloudEvents to those who asked for them, with ids that stay', async () => {
    const { secret } = await events.subscriptions.put('all', {
      url: receiver.url('/events'),
      kinds: ['run.succeeded', 'run.failed', 'run.dead', 'run.cancelled', 'alert.firing', 'alert.resolved'],
      queue: 'eventful',
    });
    await events.subscriptions.put('few', { url: receiver.url('/few'), kinds: ['run.failed'], type: 'echo' });
    const good = await jobs.create({ name: 'good', type: 'echo', queue: 'eventful', payload: 1, tags: ['t'] });
    const bad = await jobs.create({ name: 'bad', type: 'fails', queue: 'eventful' });
    const never = await jobs.create({
      name: 'never',
      type: 'echo',
      queue: 'eventful',
      schedule_type: 'FUTURE',
      schedule_time: '2035-01-01T00:00:00Z',
    });
    await jobs.create({ name: 'elsewhere', type: 'echo', queue: 'default' });
    await jobs.cancel(never.job_id);
    const calls = await receiver.got('/events', 4);
    for (const { body, headers } of calls) {
      assert.equal(headers['content-type'], 'application/cloudevents+json');
      assert.ok(new Webhook(secret ?? '').verify(body, headers as Record<string, string>));
    }
    const got = calls.map(
      ({ json }) => json as { type: string; id: string; data: { job_id: string; error_message: string | null } },
    );
    const of = (jobId: string) =>
      got
        .filter(({ data }) => data.job_id === jobId)
        .map(({ type }) => type)
        .sort();
    assert.deepEqual(of(good.job_id), ['punctual.run.succeeded']);
    assert.deepEqual(of(bad.job_id), ['punctual.run.dead', 'punctual.run.failed']);
    assert.deepEqual(of(never.job_id), ['punctual.run.cancelled']);
    const failed = calls.find(({ json }) => json['type'] === 'punctual.run.failed');
    const run = await house.ended(bad.job_id);
    assert.equal(failed?.json['id'], `${run.run_id}:failed`);
    assert.equal(failed?.headers['webhook-id'], `${run.run_id}:failed`);
    assert.deepEqual(
      [failed?.json['specversion'], failed?.json['subject'], typeof failed?.json['source'], failed?.json['time']],
      ['1.0', run.run_id, 'string', run.end_time],
    );
    assert.equal((failed?.json['data'] as { error_message: string } | undefined)?.error_message, 'out of paper');
    assert.equal(receiver.of('/few').length, 0);

    await alerts.rules.put('evented', { kind: 'missed', queue: 'none', period_ms: 100 });
    const [alert] = await eventually(() => {
      const found = receiver.of('/events').filter(({ json }) => json['type'] === 'punctual.alert.firing');
      assert.ok(found.length > 0);
      return found;
    });
    assert.equal((alert?.json['data'] as { rule: string } | undefined)?.rule, 'evented');
    await alerts.rules.delete('evented');

    // Read again from the beginning, nothing is sent again: it is known by its id.
    const sent = await house.count('deliveries', `where target = 'all'`);
    await house.db.query({
      name: '',
      text: `update punctual.event_subscriptions set read_until = now() - interval '1 hour' where name = 'all'`,
      values: [],
    });
    await eventually(async () => {
      const { read_until } = await events.subscriptions.get('all');
      assert.ok(Date.now() - Date.parse(read_until) < 5_000);
    });
    assert.equal(await house.count('deliveries', `where target = 'all'`), sent);
    await events.subscriptions.delete('all');
    await events.subscriptions.delete('few');
  });

  test('what ended while nobody read is read step by step, once each, by any number of readers', async () => {
    await using book = await openHouse({ servers: 0 });
    const query = (text: string) => book.db.query({ name: '', text, values: [] });
    await query(`insert into punctual.lanes (queue, type, executor, priority) values ('q', 't', 'handler', 5)`);
    await query(`
      insert into punctual.ended_runs (segment, run_id, job_id, lane_id, attempt, cause, status, scheduled_for, due_at, ended_at)
      select 0, ('00000000-0000-7000-8000-' || lpad(to_hex(i), 8, '0') || '2000')::uuid, gen_random_uuid(), lane_id, 1, 'submit', 'SUCCESS', now(), now(),
             now() - interval '1 hour' + (i / 7) * interval '1 second'
      from generate_series(1, 1700) i, punctual.lanes`);
    await query(`
      insert into punctual.event_subscriptions (name, definition, kinds, read_until)
      values ('s', '{"url":"http://a.example/","kinds":["run.succeeded"]}', '{run.succeeded}', now() - interval '2 hours')`);
    const horizon = new Date().toISOString();
    const isBehind = `select from punctual.event_subscriptions where read_until < '${horizon}'`;
    // Whoever finds that another reads does nothing, so it may take any number of tries.
    const read = async () => {
      const deadline = performance.now() + 60_000;
      while (performance.now() < deadline && (await query(isBehind)).length > 0)
        await readEvents(book.db, 's', { horizon, sliceMs: 600_000 });
    };
    await Promise.all([read(), read(), read()]);
    assert.equal(await book.count('deliveries'), 1700);
    await query(`delete from punctual.ended_runs`);
  });

  test('a subscription that is paused sends nothing, and then goes on where it stopped', async () => {
    const { subscriptions } = events;
    const { secret } = await subscriptions.put('resting', {
      url: receiver.url('/resting'),
      kinds: ['run.succeeded', 'alert.firing'],
    });
    const { paused_at } = await subscriptions.pause('resting');
    assert.equal((await subscriptions.pause('resting')).paused_at, paused_at, 'paused twice is paused once');
    const { job_id } = await house.client.jobs.create({ type: 'echo' });
    await house.ended(job_id);
    await house.client.alerts.rules.put('rested', { kind: 'missed', queue: 'none', period_ms: 100 });
    await eventually(async () => assert.equal((await subscriptions.get('resting')).due, 1));
    await eventually(async () => assert.equal((await house.client.alerts.list({ rule: 'rested' })).alerts.length, 1));
    assert.deepEqual(await subscriptions.test('resting'), { delivered: true, status: 204, error: null });
    const [tried] = await receiver.got('/resting', 1);
    assert.ok(new Webhook(secret ?? '').verify(tried?.body ?? '', tried?.headers as Record<string, string>));
    assert.equal(tried?.json['type'], 'punctual.test');
    assert.equal(receiver.of('/resting').length, 1, 'nothing else was sent');
    assert.equal((await subscriptions.resume('resting')).paused_at, null);
    await eventually(() => {
      const types = receiver.of('/resting').map(({ json }) => json['type']);
      assert.ok(types.includes('punctual.run.succeeded') && types.includes('punctual.alert.firing'), types.join());
    });
    await house.client.alerts.rules.delete('rested');
    await subscriptions.delete('resting');
    for (const move of ['test', 'pause', 'resume'] as const)
      await assert.rejects(subscriptions[move]('resting'), { code: 'subscription_not_found' });
  });

  test('subscriptions that cannot be are refused', async () => {
    const { subscriptions } = events;
    await assert.rejects(subscriptions.put('x', { url: 'http://a.example/', kinds: [] }), { code: 'invalid_input' });
    await assert.rejects(subscriptions.put('x', { url: 'gopher://a', kinds: ['run.failed'] }), {
      code: 'invalid_input',
    });
    await assert.rejects(subscriptions.put('x', { url: 'http://a.example/', kinds: ['run.begun' as 'run.failed'] }), {
      code: 'invalid_input',
    });
    await assert.rejects(subscriptions.get('x'), { code: 'subscription_not_found' });
    await assert.rejects(subscriptions.delete('x'), { code: 'subscription_not_found' });
  });
});

test('deliveries and alerts are counted', async () => {
  const text = await (await fetch(`${house.url}/metrics`)).text();
  assert.match(text, /punctual_deliveries_total\{outcome="(delivered|failed)"\} \d/);
  assert.match(text, /punctual_alerts_firing \d/);
});

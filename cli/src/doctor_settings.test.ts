// Settings of a server that are allowed and yet unwise.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diagnoseServerClock, diagnoseSettings } from './doctor_settings.ts';

const usual = {
  lease_ms: '15000',
  lease_margin_ms: '3000',
  heartbeat_ms: '4000',
  query_timeout_ms: '10000',
  auth: 'auto',
};
const details = (changes: Record<string, string>): string[] =>
  diagnoseSettings(new Map(Object.entries({ ...usual, ...changes }))).map(({ level, detail }) => `${level} ${detail}`);

test('what fits together is one finding, what does not is named', () => {
  assert.deepEqual(details({}), ['ok they fit together']);
  assert.match(
    details({ lease_ms: '2000', heartbeat_ms: '100', lease_margin_ms: '100', query_timeout_ms: '1000' })[0] ?? '',
    /warning lease_ms 2000/,
  );
  assert.match(details({ lease_ms: '600000' })[0] ?? '', /wait that long/);
  assert.match(details({ heartbeat_ms: '5000' })[0] ?? '', /two lost heartbeats/);
  assert.match(details({ query_timeout_ms: '15000' })[0] ?? '', /outlast a lease/);
  assert.match(details({ auth: 'off', trust_network: 'true' })[0] ?? '', /whoever reaches the server/);
  assert.deepEqual(diagnoseSettings(new Map())[0]?.level, 'ok', 'what is not known is not judged');
});

test('the clock of the server is compared as far as its header goes', () => {
  const at = Date.parse('2030-01-31T09:00:00Z');
  assert.match(diagnoseServerClock('Thu, 31 Jan 2030 09:00:00 GMT', at + 900).detail, /less than 2 s/);
  assert.equal(diagnoseServerClock('Thu, 31 Jan 2030 09:00:20 GMT', at).level, 'warning');
  assert.match(diagnoseServerClock(null, at).detail, /not known/);
});

// What time it is at the server, as far as a client can know it.
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { ServerClock } from './server-clock.ts';

const headAt = (ms: number): string => `HTTP/1.1 200 OK\r\ndate: ${new Date(ms).toUTCString()}\r\n`;

test('the time of a server is told by its answers; when our own clock is set it is not known until the next one', () => {
  const startMs = Date.UTC(2030, 0, 31);
  const serverMs = startMs + 25 * 3_600_000;
  mock.timers.enable({ apis: ['Date'], now: startMs });
  try {
    const clock = new ServerClock();
    assert.equal(clock.now(), null, 'nothing was heard yet');
    clock.heard(headAt(serverMs));
    assert.ok(Math.abs((clock.now() ?? 0) - serverMs) < 2_000);
    for (const jumpMs of [3_600_000, -3_600_000]) {
      mock.timers.setTime(Date.now() + jumpMs);
      assert.equal(clock.now(), null, 'whether our clock was set or the machine slept, nobody knows');
      clock.heard(headAt(serverMs));
      assert.ok(Math.abs((clock.now() ?? 0) - serverMs) < 2_000);
    }
  } finally {
    mock.timers.reset();
  }
});

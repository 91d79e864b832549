// What follows the end of runs, when the database does not answer.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openLog } from '../base/log.ts';
import type { Database } from '../store/database.ts';
import { Recurring } from './recurring.ts';

test('ends that could not be followed are followed the next time', async () => {
  let asked = 0;
  let fails = true;
  const db: Database = {
    query: async () => {
      if (fails) throw new Error('the database does not answer');
      asked++;
      return [];
    },
    transaction: () => assert.fail('nothing is to be changed'),
    close: async () => {},
  };
  const recurring = new Recurring({
    db,
    log: openLog('silent', 'test'),
    segments: [0, 1],
    onReleased: () => {},
    onBegun: () => {},
  });
  recurring.ended(['01930000-0000-7000-8000-000000000000', '01930000-0000-7000-8000-000000000001']);
  await assert.rejects(recurring.follow());
  fails = false;
  await recurring.follow();
  assert.equal(asked, 2 * 3, 'three statements in each segment');
  await recurring.follow();
  assert.equal(asked, 2 * 3);
});

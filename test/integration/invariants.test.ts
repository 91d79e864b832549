// The check of what must always hold, where there is much.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { openApplication } from '../support/application.ts';
import { openHouse } from '../support/house.ts';
import { copyTheJob } from '../support/many_jobs.ts';
import { keepsWithin, timed } from '../support/within.ts';

const hour = 3_600_000;

test('what must hold is checked in seconds, also in tables that PostgreSQL takes for empty', async () => {
  await using house = await openHouse();
  await house.client.jobs.create({ type: 'mail', delay_ms: hour });
  await using app = await openApplication(house.databaseUrl);
  const filling = await app.connect();
  await filling.query('begin');
  await copyTheJob(filling, 100_000);
  // It sees none of the rows that are not committed, and remembers that there are none.
  await app.query('analyze punctual.jobs, punctual.waiting');
  await filling.query('commit');
  await keepsWithin(10_000, () => timed(async () => assert.deepEqual(await checkInvariants(house.db), [])));
});

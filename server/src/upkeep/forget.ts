// Forgets alerts, silences and deliveries that were over long ago, some at a time. Called by a loop; harmless on every server.
import { pruneAlerts } from '../store/alerts.ts';
import type { Database } from '../store/database.ts';
import { pruneDeliveries, pruneOrphans } from '../store/deliveries.ts';
import { pruneSilences } from '../store/silences.ts';

/** Who looks for what was wrong looks back some weeks. */
const alertDays = 30;
const deliveredDays = 3;
const limit = 1_000;
/** Soon again, while there is more. */
const soonMs = 1_000;

/** Answers in how many ms it wants to be called again, if there is more to do. */
export async function forgetOnce(db: Database): Promise<number | void> {
  const alerts = await pruneAlerts(db, { days: alertDays, limit });
  const deliveries = await pruneDeliveries(db, { deliveredDays, deadDays: alertDays, limit });
  await pruneSilences(db, alertDays);
  await pruneOrphans(db);
  if (alerts === limit || deliveries === limit) return soonMs;
}

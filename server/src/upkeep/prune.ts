// Removes old history, in the order in which things refer to each other: log lines, runs, attempts, times of the ledger,
// files they published, backfills, dependencies, workflows, jobs; then idempotency keys, operations, sessions and the audit
// log; then artifacts. One small batch after the other, so that a
// server can take them with pauses, and `punctual prune` one after the other. Any number may do it at once: each removes
// what it still finds. Cutting it short anywhere leaves nothing that is wrong, only something that is still there.
import type { RetentionPolicy } from '@punctual/contract';
import { lowestIdAt } from '../base/ids.ts';
import type { Config } from '../config.ts';
import { type Span, spansOf } from '../rules/retention.ts';
import { pruneArtifacts } from '../store/artifacts.ts';
import { pruneAudit } from '../store/audit.ts';
import type { Database } from '../store/database.ts';
import { type HistoryTable, lookAt, type Place, removeFrom, type Stretch, startOf } from '../store/history.ts';
import { dropDay, type HistoryDay, listDays } from '../store/history_days.ts';
import { findSpent, removeSpent } from '../store/job_removal.ts';
import { pruneKeys } from '../store/keys.ts';
import {
  pruneBackfills,
  pruneDependents,
  pruneLedger,
  pruneWorkflows,
  type RemovedPage,
} from '../store/ledger_removal.ts';
import { dropFilters, sweepFilters } from '../store/log_filters.ts';
import { pruneOperations, pruneSessions, pruneSubmissions } from '../store/record_removal.ts';
import { listRetention } from '../store/retention.ts';
import { pruneRunArtifacts } from '../store/run_artifacts.ts';
import { databaseNow } from '../store/schedules.ts';

export type PrunedTable =
  | HistoryTable
  | 'occurrences'
  | 'backfills'
  | 'dependents'
  | 'workflows'
  | 'jobs'
  | 'submissions'
  | 'operations'
  | 'audit'
  | 'api_keys'
  | 'workers'
  | 'run_artifacts'
  | 'artifacts';

export interface PruneStep {
  table: PrunedTable;
  /** Rows removed, or that would be. */
  rows: number;
  /** A day that was dropped with its partition. */
  dropped?: string;
  /** A day that others use right now: it is left for another time. */
  busy?: string;
  /** There is more, which was not counted. */
  more?: true;
}

export interface PruneParts {
  db: Database;
  segments: readonly number[];
  policy: RetentionPolicy;
  /** How long the audit log is kept, and keys after their end; for ever unless given. */
  auditDays?: number;
  /** Removes nothing, only counts. */
  dryRun: boolean;
}

/** A day of which more runs stay is not dropped: they would have to be copied while everybody waits. */
const maxStaying = 1000;
const dayMs = 24 * 3600 * 1000;

export function policyOf(config: Config): RetentionPolicy {
  return {
    runs_days: config.retain_runs_days,
    logs_days: config.retain_logs_days,
    submissions_days: config.retain_submissions_days,
    operations_days: config.retain_operations_days,
    artifacts_days: config.retain_artifacts_days,
  };
}

/** Each step is a batch that has been removed, or counted. */
export async function* prune(parts: PruneParts): AsyncGenerator<PruneStep, void, undefined> {
  const { db, policy } = parts;
  const spans = spansOf(policy, await listRetention(db));
  const stages = [
    pruneHistory(parts, 'log_chunks', spans.logs),
    pruneFilters(parts),
    pruneHistory(parts, 'ended_runs', spans.runs),
    pruneHistory(parts, 'attempts', spans.runs),
    prunePages(parts, 'run_artifacts', pruneRunArtifacts),
    prunePages(parts, 'occurrences', pruneLedger),
    prunePages(parts, 'backfills', pruneBackfills),
    prunePages(parts, 'dependents', pruneDependents),
    prunePages(parts, 'workflows', pruneWorkflows),
    pruneJobs(parts, spans.runs),
    pruneSubmitted(parts),
    pruneOthers(parts),
    pruneFiles(parts),
    pruneAudited(parts),
  ];
  for (const stage of stages) yield* parts.dryRun ? bounded(stage) : stage;
}

/** Counting goes no further than this: some hundred thousand rows of a table. */
const maxCountedSteps = 500;

async function* bounded(steps: AsyncGenerator<PruneStep>): AsyncGenerator<PruneStep> {
  let counted = 0;
  for await (const step of steps) {
    if (++counted > maxCountedSteps) {
      yield { table: step.table, rows: step.rows, more: true };
      return;
    }
    yield step;
  }
}

async function* pruneHistory(parts: PruneParts, table: HistoryTable, span: Span): AsyncGenerator<PruneStep> {
  if (span.shortest === Number.POSITIVE_INFINITY) return;
  for (const day of await listDays(parts.db, table)) {
    if (day.age_days < span.shortest) break;
    if (!parts.dryRun && day.age_days >= span.longest) {
      const dropped = yield* pruneDay(parts, day);
      if (dropped) continue;
    }
    yield* pruneRows(parts, { table, day });
  }
  yield* pruneRows(parts, { table, day: null });
}

/** What lines of a day were found by goes after them. */
async function* pruneFilters({ db, dryRun }: PruneParts): AsyncGenerator<PruneStep> {
  if (dryRun) return;
  const kept = new Set((await listDays(db, 'log_chunks')).map(({ from }) => from));
  for (const day of await listDays(db, 'log_filters')) {
    if (kept.has(day.from)) continue;
    const answer = await dropFilters(db, day);
    yield { table: 'log_chunks', rows: 0, ...(answer === 'busy' ? { busy: day.name } : {}) };
  }
  await sweepFilters(db);
}

/** Drops a day that is over by every rule. Answers false when its rows are to be removed one by one. */
async function* pruneDay(parts: PruneParts, day: HistoryDay): AsyncGenerator<PruneStep, boolean> {
  const { db, policy, segments } = parts;
  const staying: string[] = [];
  let going = 0;
  for (const segment of segments)
    for (let place: Place | null = startOf(segment); place !== null; ) {
      const look = await lookAt(db, { table: day.table, day }, place, { policy, foreseen: false, over: true });
      going += look.going;
      staying.push(...look.staying);
      place = look.next;
      if (staying.length > maxStaying) return false;
      yield { table: day.table, rows: 0 };
    }
  const answer = await dropDay(db, day, staying, policy);
  if (answer === 'busy') yield { table: day.table, rows: 0, busy: day.name };
  if (answer === 'dropped') yield { table: day.table, rows: going, dropped: day.name };
  return true;
}

type Page = { going?: number; removed?: number; next: Place | null };

async function* pruneRows({ db, policy, segments, dryRun }: PruneParts, stretch: Stretch): AsyncGenerator<PruneStep> {
  for (const segment of segments)
    for (let place: Place | null = startOf(segment); place !== null; ) {
      const page: Page = dryRun
        ? await lookAt(db, stretch, place, { policy, foreseen: true, over: false })
        : await removeFrom(db, stretch, place, policy);
      place = page.next;
      yield { table: stretch.table, rows: page.going ?? page.removed ?? 0 };
    }
}

async function* prunePages(
  { db, policy, segments, dryRun }: PruneParts,
  table: PrunedTable,
  page: (db: Database, place: Place, options: { policy: RetentionPolicy; foreseen: boolean }) => Promise<RemovedPage>,
): AsyncGenerator<PruneStep> {
  for (const segment of segments)
    for (let place: Place | null = startOf(segment); place !== null; ) {
      const { removed, next }: RemovedPage = await page(db, place, { policy, foreseen: dryRun });
      place = next;
      yield { table, rows: removed };
    }
}

/** Jobs that are younger than the shortest time have runs that are. */
async function* pruneJobs({ db, policy, segments, dryRun }: PruneParts, span: Span): AsyncGenerator<PruneStep> {
  if (span.shortest === Number.POSITIVE_INFINITY) return;
  const below = lowestIdAt((await databaseNow(db)) - span.shortest * dayMs);
  for (const segment of segments)
    for (let place: Place | null = startOf(segment); place !== null; ) {
      const { job_ids, next } = await findSpent(db, place, below, { policy, foreseen: dryRun });
      const rows = dryRun || job_ids.length === 0 ? job_ids.length : await removeSpent(db, segment, job_ids);
      place = next;
      yield { table: 'jobs', rows };
    }
}

async function* pruneSubmitted({ db, policy, segments, dryRun }: PruneParts): AsyncGenerator<PruneStep> {
  const options = { policy, foreseen: dryRun };
  for (const segment of policy.submissions_days === 0 ? [] : segments)
    for (
      let place: Parameters<typeof pruneSubmissions>[1] | null = { segment, user_id: '', key: '' };
      place !== null;
    ) {
      const page: Awaited<ReturnType<typeof pruneSubmissions>> = await pruneSubmissions(db, place, options);
      place = page.next;
      yield { table: 'submissions', rows: page.removed };
    }
}

async function* pruneAudited({ db, auditDays = 0, dryRun }: PruneParts): AsyncGenerator<PruneStep> {
  if (auditDays === 0) return;
  const below = lowestIdAt((await databaseNow(db)) - auditDays * dayMs);
  for (let more = true; more; ) {
    const page = await pruneAudit(db, below, { foreseen: dryRun });
    more = page.more;
    yield { table: 'audit', rows: page.removed };
  }
  if (!dryRun) yield { table: 'api_keys', rows: await pruneKeys(db, auditDays) };
}

async function* pruneOthers({ db, policy, segments, dryRun }: PruneParts): AsyncGenerator<PruneStep> {
  const options = { policy, foreseen: dryRun };
  for (let more = policy.operations_days > 0; more; ) {
    const page = await pruneOperations(db, segments, options);
    more = page.more;
    yield { table: 'operations', rows: page.removed };
  }
  for (let after: string | null = startOf(0).after; after !== null; ) {
    const page: Awaited<ReturnType<typeof pruneSessions>> = await pruneSessions(db, after, options);
    after = page.next;
    yield { table: 'workers', rows: page.removed };
  }
}

/** Their content is removed by a server, within minutes. */
async function* pruneFiles({ db, policy, segments, dryRun }: PruneParts): AsyncGenerator<PruneStep> {
  const options = { days: policy.artifacts_days, foreseen: dryRun };
  for (const segment of policy.artifacts_days === 0 ? [] : segments)
    for (let after: string | null = ''; after !== null; ) {
      const page: Awaited<ReturnType<typeof pruneArtifacts>> = await pruneArtifacts(db, { segment, after }, options);
      after = page.next;
      yield { table: 'artifacts', rows: page.removed };
    }
}

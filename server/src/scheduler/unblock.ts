// What follows the end of a run that others depend on: they are released, or dropped, and so are those that depend on them.
// Done at once after ends that this server sees, and every second for whatever is blocked: a server that dies in between,
// or an end that nobody told of, costs a second or so and never a run.
//
// Runs that nothing depends on must not pay for this: a server knows in which segments there are runs with dependents, and
// looks at ends only there. It asks the book once a poll interval, hears from other servers, and knows what it made itself.
import { monotonicMs } from '../base/clock.ts';
import { groupBySegment } from '../base/ids.ts';
import type { Metrics } from '../base/metrics.ts';
import { needAfter } from '../rules/dependency.ts';
import { findEnded, readBlocked, readFacts, readUntold } from '../store/blocked.ts';
import type { Database } from '../store/database.ts';
import { dropUnmet } from '../store/drop.ts';
import { meetNeeds, type Released, releaseMet } from '../store/release.ts';
import { followRetries, readMoved, reviveJobs } from '../store/revive.ts';
import { type Concerned, forgetMet, noteFailed, readConcerned } from '../store/unblock.ts';

export interface UnblockParts {
  db: Database;
  metrics: Metrics;
  segments: readonly number[];
  /** Told where runs were released, and in how many ms the first is due that waits for its own time. */
  onReleased: (segment: number, nextMs: number | null) => void;
}

/** Rows of one transaction: more would hold the rows of their children too long. */
const maxBatch = 1000;
/** Ends remembered at most; the safety net finds what is beyond. */
const maxRemembered = 100_000;
/** What the safety net looks at in one go: a million blocked runs cost it no more than some thousands. */
const maxLooks = 2000;

export class Unblocker {
  readonly #parts: UnblockParts;
  #ended = new Map<number, Set<string>>();
  #retried = new Set<number>();
  /** Segments whose runs have dependents, and the monotonic ms at which that was last said. */
  readonly #parents = new Map<number, number>();
  /** Where the safety net goes on. */
  #endsFrom = start;
  #astrayFrom = start;

  constructor(parts: UnblockParts) {
    this.#parts = parts;
  }

  /** Runs of a segment have ended. Answers whether there is something to do. */
  ended(segment: number, runIds: Iterable<string>): boolean {
    if (!this.awaited(segment)) return false;
    this.#look(segment, runIds);
    return true;
  }

  /** Do jobs depend on runs of the segment, as far as is known here? */
  awaited(segment: number): boolean {
    return this.#parents.has(segment);
  }

  /** Jobs were created, here or elsewhere, that depend on runs of these segments. */
  depended(segments: Iterable<number>): void {
    for (const segment of segments) this.#parents.set(segment, monotonicMs());
  }

  /** Jobs were created that depend on these runs, some of which may have ended. */
  created(parents: Iterable<string>): void {
    for (const [segment, runIds] of groupBySegment(parents, (id) => id)) {
      this.depended([segment]);
      this.#look(segment, runIds);
    }
  }

  /** Runs of the segment were redriven. */
  retried(segment: number): void {
    this.#retried.add(segment);
  }

  /** Does all that is known to be done; each level of what follows from it is a turn of the loop. */
  async pass(): Promise<void> {
    while (this.#ended.size > 0 || this.#retried.size > 0) {
      const [retried, ended] = [this.#retried, this.#ended];
      this.#retried = new Set();
      this.#ended = new Map();
      for (const segment of retried) await this.#revive(segment);
      for (const [segment, runIds] of ended) await this.#unblock(segment, [...runIds]);
    }
  }

  /** The safety net. */
  async tend(): Promise<void> {
    const { db, segments } = this.#parts;
    const askedAt = monotonicMs();
    const facts = await readFacts(db, segments);
    for (const { segment, parents, moved } of facts) {
      if (parents) this.depended([segment]);
      else if ((this.#parents.get(segment) ?? askedAt) < askedAt) this.#parents.delete(segment);
      if (moved) this.#retried.add(segment);
    }
    const where = (is: 'parents' | 'blocked') => facts.filter((fact) => fact[is]).map((fact) => fact.segment);
    this.#endsFrom = await goOn(this.#endsFrom, where('parents'), (...look) => this.#lookForEnds(...look));
    this.#astrayFrom = await goOn(this.#astrayFrom, where('blocked'), (...look) => this.#lookForAstray(...look));
    await this.pass();
  }

  #look(segment: number, runIds: Iterable<string>): void {
    let known = this.#ended.get(segment);
    if (known === undefined) {
      known = new Set();
      this.#ended.set(segment, known);
    }
    for (const id of runIds) if (known.size < maxRemembered) known.add(id);
  }

  async #unblock(segment: number, runIds: readonly string[]): Promise<void> {
    for (let from = 0; from < runIds.length; ) {
      const some = runIds.slice(from, from + maxBatch);
      const concerned = await readConcerned(this.#parts.db, segment, some, maxBatch);
      if (concerned.length > 0) await this.#tell(segment, concerned);
      // What was told is not read again: the same runs may concern more.
      if (concerned.length < maxBatch) from += maxBatch;
    }
  }

  async #tell(segment: number, concerned: readonly Concerned[]): Promise<void> {
    const { db } = this.#parts;
    const retried = concerned.flatMap(({ retried_run_id, ...row }) =>
      retried_run_id === null ? [] : [{ ...row, retried_run_id }],
    );
    if (retried.length > 0) {
      await followRetries(db, segment, retried);
      this.#retried.add(segment);
    }
    const told = concerned
      .filter((row) => row.retried_run_id === null)
      .map(({ run_id, job_id, on, status }) => ({
        run_id,
        job_id,
        parent_run_id: run_id,
        state: needAfter(on, status),
      }));
    for (const [children, group] of groupBySegment(told, (row) => row.job_id)) {
      const met = group.filter((row) => row.state === 'met');
      const unmet = group.filter((row) => row.state === 'failed');
      if (met.length > 0) await this.#meet(children, met);
      if (unmet.length > 0) this.#dropped(children, await dropUnmet(db, children, unmet));
    }
    const [met, failed] = [told.filter((row) => row.state === 'met'), told.filter((row) => row.state === 'failed')];
    if (met.length > 0) await forgetMet(db, segment, met);
    if (failed.length > 0) await noteFailed(db, segment, failed);
  }

  async #meet(segment: number, met: readonly { job_id: string; parent_run_id: string }[]): Promise<void> {
    const released = await meetNeeds(this.#parts.db, segment, met);
    this.#released(segment, released);
    const gone = new Set(released.map((run) => run.job_id));
    const left = new Set(met.flatMap(({ job_id }) => (gone.has(job_id) ? [] : [job_id])));
    if (left.size > 0) await this.#release(segment, [...left]);
  }

  async #release(segment: number, jobIds: readonly string[]): Promise<void> {
    this.#released(segment, await releaseMet(this.#parts.db, segment, jobIds));
  }

  #released(segment: number, released: readonly Released[]): void {
    if (released.length === 0) return;
    const nextMs = Math.min(...released.map((run) => run.in_ms ?? Number.POSITIVE_INFINITY));
    this.#parts.onReleased(segment, nextMs === Number.POSITIVE_INFINITY ? null : nextMs);
  }

  /** What depends on them is next. */
  #dropped(segment: number, runIds: readonly string[]): void {
    if (runIds.length === 0) return;
    this.#parts.metrics.runsEnded.inc({ outcome: 'dropped' }, runIds.length);
    this.#look(segment, runIds);
  }

  /** Children of redriven runs wait for the new ones; what depends on those that come back is next. */
  async #revive(segment: number): Promise<void> {
    const { db } = this.#parts;
    for (let moved = await readMoved(db, segment, maxBatch); moved.length > 0; ) {
      for (const [children, group] of groupBySegment(moved, (row) => row.job_id))
        if ((await reviveJobs(db, { parents: segment, children }, group)).length > 0) this.#retried.add(children);
      // The new runs may have ended already.
      this.#look(
        segment,
        moved.map((row) => row.run_id),
      );
      moved = moved.length < maxBatch ? [] : await readMoved(db, segment, maxBatch);
    }
  }

  /** Looks for ends that nobody told of. */
  async #lookForEnds(segment: number, after: string, limit: number): Promise<string[]> {
    const { db } = this.#parts;
    const runIds = await readUntold(db, segment, after, limit);
    if (runIds.length > 0) this.#look(segment, await findEnded(db, segment, [...new Set(runIds)]));
    return runIds;
  }

  /** Looks for runs that are blocked although nothing is pending, or although they cannot start any more. */
  async #lookForAstray(segment: number, after: string, limit: number): Promise<string[]> {
    const { db } = this.#parts;
    const blocked = await readBlocked(db, segment, after, limit);
    const astray = blocked.filter((run) => run.astray).map((run) => run.job_id);
    if (astray.length > 0) {
      await this.#release(segment, astray);
      this.#dropped(segment, await dropUnmet(db, segment, [], astray));
    }
    return blocked.map((run) => run.run_id);
  }
}

/** Where a look that takes segments and ids in turn goes on. */
interface Place {
  segment: number;
  after: string;
}

const start: Place = { segment: 0, after: '00000000-0000-0000-0000-000000000000' };

/** Looks at a bounded number of things, from where the last look ended; `look` answers the ids it saw, in order. */
async function goOn(
  from: Place,
  segments: readonly number[],
  look: (segment: number, after: string, limit: number) => Promise<string[]>,
): Promise<Place> {
  let left = maxLooks;
  for (const segment of segments.filter((one) => one >= from.segment)) {
    const seen = await look(segment, segment === from.segment ? from.after : start.after, left);
    const last = seen.at(-1);
    if (seen.length === left && last !== undefined) return { segment, after: last };
    left -= seen.length;
  }
  return start;
}

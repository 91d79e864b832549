// The server's side of the worker protocol (contract/src/workers.ts tells the worker's side). One call: what the worker
// reports is applied, its lease is renewed, grants that never arrived are taken back, and the call waits until there is
// something to say or a heartbeat has passed.
//
// Which grants were lost? An answer may be lost on the way, and the worker may have two calls open. Each grant remembers
// the call whose answer carried it. `concluded` says which calls the worker no longer waits for: a grant of one of those
// that is neither running nor reported can never start there, so it is given back without costing an attempt. The fence
// makes this safe to be wrong about settles: a release with an old lease matches nothing.
//
// Grants that no server remembers (it crashed, or a claim's answer was lost) are found by comparing with the book, at the
// first call that comes here from another server, after each claim that failed, and once a lease, because a claim that was
// given up here may commit later. Only while the worker has no other call open: an answer on its way through another server
// must not be taken back.
//
// So two servers may look after one session at the same time, and one of them may be late. The book orders them: it keeps
// the number of the newest call under which a server has taken the session over (store/workers.ts). A server grants nothing
// before it has done that, and takes nothing back with the list of an older call. What it had not sent when the session went
// elsewhere goes back: it may have been taken back there.
import { type FieldError, type NewProgress, PunctualError, type SyncRequest } from '@punctual/contract';
import { monotonicMs, restAfter } from '../base/clock.ts';
import { groupBySegment } from '../base/ids.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Vault } from '../base/vault.ts';
import { packLogs } from '../rules/log_rows.ts';
import { type PreparedCheckpoint, prepareReport } from '../rules/report.ts';
import { forgetEnded, saveCheckpoints } from '../store/checkpoints.ts';
import type { Database } from '../store/database.ts';
import { appendLogs } from '../store/logs.ts';
import { noteProgress } from '../store/progress.ts';
import { sealedJobsOf } from '../store/sealed.ts';
import type { Lease } from '../store/settle.ts';
import { endSession, leasesOf, registerSession, takeOver } from '../store/workers.ts';
import type { Claimer } from './claim.ts';
import { inOnePart, inTwoParts } from './grant_text.ts';
import type { Renewer } from './renew.ts';
import { type Sealer, sealerOf, unsealed } from './seal.ts';
import {
  doubt,
  type Ended,
  isDoubtful,
  noteReported,
  type Parked,
  reconcile,
  type Session,
  type Sessions,
  sealedAmong,
  wasElsewhere,
} from './sessions.ts';
import { leaseText, type Settled, settleOutcomes } from './settle.ts';
import { isRoaming, send } from './slots.ts';

export interface SyncOptions {
  db: Database;
  sessions: Sessions;
  claimer: Claimer;
  renewer: Renewer;
  metrics: Metrics;
  vault: Vault;
  serverId: string;
  segments: number;
  leaseMs: number;
  marginMs: number;
  heartbeatMs: number;
  /** Told which attempts were settled. */
  onEnded: (ended: readonly Ended[]) => void;
  /** Told which runs have stored log lines, or tried to. */
  onLogged: (runIds: readonly string[]) => void;
  /** Told what settles made ready or let wait, and of which runs. */
  onSettled: (settled: Settled, outcomes: readonly Lease[]) => void;
}

interface Report {
  request: SyncRequest;
  checkpoints: readonly PreparedCheckpoint[];
  arrivedAt: number;
  /** Granted here and never sent. */
  unsent: readonly Lease[];
}

export interface CallOptions {
  /** Aborted when the worker's connection is gone. */
  closed: AbortSignal;
  /** How many the answer is to have. */
  parts: 1 | 2;
  /** Told when nothing of what was reported is needed any more, which a call that waits outlives. */
  onApplied: () => void;
}

interface Call extends CallOptions {
  request: SyncRequest;
  arrivedAt: number;
  /** What was reported is being applied and the lease renewed; resolves to what the fence refused. */
  applied: Promise<Lease[]>;
}

export class Sync {
  readonly #options: SyncOptions;
  #stopping = false;

  constructor(options: SyncOptions) {
    this.#options = options;
  }

  /** Handles one call; the answer is text, in one part or two. */
  async call(workerId: string, given: SyncRequest, { closed, parts, onApplied }: CallOptions): Promise<string> {
    if (this.#stopping)
      throw new PunctualError('unavailable', { detail: 'This server is stopping.', retryAfterSeconds: 1 });
    const report = prepareReport(given);
    if ('refused' in report) throw badReport(report.refused);
    const request: SyncRequest = { ...given, outcomes: report.outcomes };
    const known = this.#options.sessions.open(request, workerId);
    const { session, unsent } = wasElsewhere(known, request) ? this.#startOver(known) : { session: known, unsent: [] };
    const arrivedAt = monotonicMs();
    const newest = request.n > session.call;
    session.seenAt = arrivedAt;
    if (newest) {
      session.call = request.n;
      session.accept = request.accept && request.bye !== true && !session.drainOrdered;
      // A call that will not wait leaves the one that does where it is.
      if (request.wait || request.bye === true) session.parked?.answer();
    }
    const applied = this.#apply(session, { request, checkpoints: report.checkpoints, arrivedAt, unsent });
    applied.then(onApplied, onApplied);
    const call: Call = { request, arrivedAt, closed, parts, onApplied, applied };
    if (request.bye === true) return this.#sayGoodbye(session, call);
    // A call that was overtaken says nothing about now.
    if (newest && request.wait) return this.#wait(session, call);
    const refused = await call.applied;
    return closed.aborted ? '' : this.#answer(session, call, refused);
  }

  /** Answers everybody who waits; later calls are sent to other servers. */
  stop(): void {
    this.#stopping = true;
    for (const session of this.#options.sessions.all()) session.parked?.answer();
  }

  /** A cancel for a worker that may be connected here. */
  cancel(sessionId: string, lease: Lease): void {
    const session = this.#options.sessions.get(sessionId);
    if (session === undefined) return;
    addCancels(session, [lease]);
    session.parked?.answer();
  }

  /** Lets a worker that may be connected here take nothing new, and tells it so. */
  drain(sessionId: string): void {
    const session = this.#options.sessions.get(sessionId);
    if (session === undefined || session.drainOrdered) return;
    session.drainOrdered = true;
    session.accept = false;
    session.parked?.answer();
  }

  /** Forgets sessions that no longer call here, and gives back what was never sent to them. */
  async dropSilent(): Promise<void> {
    const oldest = monotonicMs() - this.#options.leaseMs;
    for (const session of this.#options.sessions.all()) {
      if (session.seenAt > oldest || session.parked !== null || session.reserved > 0) continue;
      this.#forget(session);
      await this.#giveBack(takeUnsent(session));
    }
  }

  /** What was granted and will not be sent any more, since this server stops. */
  async giveBackUnsent(): Promise<void> {
    await this.#giveBack([...this.#options.sessions.all()].flatMap(takeUnsent));
  }

  #startOver(known: Session): { session: Session; unsent: Lease[] } {
    const { sessions, claimer, metrics, leaseMs } = this.#options;
    metrics.workersReturned.inc();
    const session = sessions.replace(known, leaseMs);
    if (session.worker !== null) claimer.join(session);
    claimer.leave(known);
    return { session, unsent: takeUnsent(known) };
  }

  #forget(session: Session): void {
    this.#options.claimer.leave(session);
    this.#options.sessions.close(session);
  }

  /** Settling, renewing and claiming go on side by side: the slots are free as soon as the worker says so. */
  async #apply(session: Session, { request, checkpoints, arrivedAt, unsent }: Report): Promise<Lease[]> {
    const renewed = this.#renew(session, request, arrivedAt);
    const sealed = sealedAmong(session, request);
    const { ended, keepers } = noteReported(session, request);
    // A call that was overtaken, or is the last one, says nothing about now.
    const isNow = request.n === session.call && request.bye !== true;
    const lost = isNow ? reconcile(session, request) : [];
    const compares = isNow && this.#compares(session, request);
    const [refused, behind] = await Promise.all([
      this.#applyInOrder(session, { request, checkpoints, sealed }),
      this.#noteProgress(request),
      renewed.then(() => (isNow ? this.#takeOver(session, request, compares) : undefined)),
      // Else they are among those that nobody knows of.
      compares ? [] : this.#giveBackOrDoubt(session, [...unsent, ...lost]),
    ]);
    if (ended.length > 0) this.#options.onEnded(ended);
    await this.#clearUp(keepers);
    return [...refused, ...behind];
  }

  /** What a run logged and saved goes before its outcome, after which its lease holds no more. */
  async #applyInOrder(
    session: Session,
    {
      request,
      checkpoints,
      sealed,
    }: Pick<Report, 'request' | 'checkpoints'> & { sealed: ReturnType<typeof sealedAmong> },
  ): Promise<Lease[]> {
    const { db } = this.#options;
    const { logs = [], outcomes = [] } = request;
    const unlogged = await this.#fenced(logs, (segment, group) => appendLogs(db, segment, packLogs(group)));
    if (logs.length > 0) this.#options.onLogged(logs.map(({ run_id }) => run_id));
    const seal = await this.#sealer(sealed);
    const unsaved = await this.#saveCheckpoints(checkpoints, seal);
    for (const { run_id } of checkpoints) {
      const held = session.held.get(run_id);
      if (held !== undefined) held.keeps = true;
    }
    return [...unlogged, ...unsaved, ...(await this.#settle(outcomes, seal))];
  }

  /** One that cannot be sealed is refused: it must not be stored in the clear, and not be taken for saved. */
  #saveCheckpoints(checkpoints: readonly PreparedCheckpoint[], seal: Sealer): Promise<Lease[]> {
    return this.#fenced(checkpoints, (segment, group) => {
      const values = group.flatMap((checkpoint) => {
        const value = seal('checkpoint', checkpoint.run_id, checkpoint.value);
        return value === null ? [] : [{ ...checkpoint, value }];
      });
      return saveCheckpoints(this.#options.db, segment, values);
    });
  }

  async #sealer({ jobs, unknown }: ReturnType<typeof sealedAmong>): Promise<Sealer> {
    const { db, vault, segments } = this.#options;
    if (unknown.size > 0)
      for (const [segment, group] of groupBySegment([...unknown], (run_id) => run_id)) {
        if (segment >= segments) continue;
        for (const [run_id, job_id] of await sealedJobsOf(db, segment, group)) jobs.set(run_id, job_id);
      }
    return sealerOf(vault, jobs);
  }

  /** Beside the rest, which must not wait for it; of a run that the same call ends, it is of no use. */
  #noteProgress({ progress = [], outcomes = [] }: SyncRequest): Promise<Lease[]> {
    const ended = new Set(progress.length === 0 ? [] : outcomes.map(({ run_id }) => run_id));
    const going = progress.filter(({ run_id }) => !ended.has(run_id));
    return this.#fenced<NewProgress>(going, (segment, group) => noteProgress(this.#options.db, segment, group));
  }

  /** Writes things that belong to leases, a segment at a time; answers those whose lease has moved on. */
  async #fenced<Item extends Lease>(
    items: readonly Item[],
    write: (segment: number, group: Item[]) => Promise<Set<string>>,
  ): Promise<Lease[]> {
    if (items.length === 0) return [];
    const refused: Lease[] = [];
    for (const [segment, group] of groupBySegment(items, (item) => item.run_id)) {
      const written = segment >= this.#options.segments ? new Set<string>() : await write(segment, group);
      refused.push(...group.filter((item) => !written.has(leaseText(item))));
    }
    this.#options.metrics.leaseLost.inc(refused.length);
    return refused;
  }

  async #clearUp(runIds: readonly string[]): Promise<void> {
    for (const [segment, group] of groupBySegment(runIds, (run_id) => run_id))
      if (segment < this.#options.segments) await forgetEnded(this.#options.db, segment, group);
  }

  async #settle(outcomes: NonNullable<SyncRequest['outcomes']>, seal: Sealer = unsealed): Promise<Lease[]> {
    if (outcomes.length === 0) return [];
    const settled = await settleOutcomes(this.#options, outcomes, seal);
    this.#options.onSettled(settled, outcomes);
    return settled.refused;
  }

  async #giveBack(leases: readonly Lease[]): Promise<void> {
    if (leases.length === 0) return;
    this.#options.metrics.runsGivenBack.inc(leases.length);
    await this.#settle(leases.map((lease) => ({ ...lease, status: 'RELEASED' as const })));
  }

  async #renew(session: Session, request: SyncRequest, arrivedAt: number): Promise<void> {
    const { db, leaseMs, heartbeatMs, renewer, claimer } = this.#options;
    const begunAt = monotonicMs();
    const takes = request.accept && !session.drainOrdered;
    let alive = true;
    if (request.worker !== undefined) {
      alive = await registerSession(db, session, request.worker, leaseMs);
      session.worker = request.worker;
      if (alive) claimer.join(session);
    } else if (arrivedAt - session.renewedAt > heartbeatMs / 4 || session.draining === takes) {
      session.draining = !takes;
      const renewal = await renewer.renew(session.session_id, !takes);
      alive = renewal.alive;
      addCancels(session, renewal.cancels);
    } else {
      return;
    }
    if (alive) {
      session.renewedAt = begunAt;
      return;
    }
    this.#forget(session);
    throw new PunctualError('session_lost');
  }

  /** What cannot be given back now is found in the book. */
  async #giveBackOrDoubt(session: Session, leases: readonly Lease[]): Promise<void> {
    try {
      await this.#giveBack(leases);
    } catch (error) {
      doubt(session);
      throw error;
    }
  }

  /** Is the book to be compared with this call, and can it be? */
  #compares(session: Session, { n, concluded, running }: SyncRequest): boolean {
    const now = monotonicMs();
    const isDue = isDoubtful(session) || (now >= session.restUntil && now - session.comparedAt > this.#options.leaseMs);
    return isDue && running !== undefined && concluded === n - 1;
  }

  /** Makes sure that the session is ours to grant to, and takes back what the book says it has and nobody knows of. */
  async #takeOver(session: Session, { n, running, outcomes = [] }: SyncRequest, compares: boolean): Promise<void> {
    if (n !== session.call || session.closed || (session.here && !compares)) return;
    const { db, claimer, segments } = this.#options;
    const begunAt = monotonicMs();
    // Nothing is leased to it from here on; what is being leased, or settled by this call, is known.
    session.here = false;
    const known = new Set([...(running ?? []), ...session.held.keys(), ...outcomes.map(({ run_id }) => run_id)]);
    const underWay = new Set(claimer.underWay);
    const leases = await takeOver(db, { session_id: session.session_id, n, segments: compares ? segments : 0 });
    if (leases === null) return;
    session.here = session.doubtedAt < begunAt;
    if (!compares) return;
    session.comparedAt = begunAt;
    const now = monotonicMs();
    session.restUntil = now + restAfter(now - begunAt);
    const lost = leases.filter(({ run_id, lease_id }) => !known.has(run_id) && !underWay.has(lease_id));
    await this.#giveBackOrDoubt(session, lost);
  }

  /** The worker runs nothing any more: whatever the book still says it holds never reached it. */
  async #sayGoodbye(session: Session, call: Call): Promise<string> {
    const refused = await call.applied;
    const running = new Set(call.request.running);
    // Before the session ends: what is found under one that has ended counts as lost, and as an attempt.
    await this.#giveBackAllBut(session, running);
    await endSession(this.#options.db, session.session_id);
    // What was granted meanwhile.
    await this.#giveBackAllBut(session, running);
    this.#forget(session);
    session.outbox = [];
    return this.#answer(session, call, refused);
  }

  async #giveBackAllBut(session: Session, kept: Pick<ReadonlySet<string>, 'has'>): Promise<void> {
    const { db, segments } = this.#options;
    const leases = await leasesOf(
      db,
      session.session_id,
      Array.from({ length: segments }, (_, i) => i),
    );
    await this.#giveBack(leases.filter((lease) => !kept.has(lease.run_id)));
  }

  /** Answers when there is something to say, a newer call comes or a heartbeat has passed; never before all is applied. */
  async #wait(session: Session, call: Call): Promise<string> {
    const { request, closed } = call;
    const parked = park(session, request.n, this.#options.heartbeatMs);
    closed.addEventListener('abort', parked.answer);
    try {
      send(session);
      if (closed.aborted) parked.answer();
      else this.#options.claimer.run();
      const refused = await call.applied;
      send(session);
      if (refused.length > 0 || session.cancels.length > 0 || session.worker === null) parked.answer();
      // A description or a comparison may just have opened the session for work.
      else this.#options.claimer.run();
      await parked.answered;
      return closed.aborted ? '' : this.#answer(session, call, refused);
    } finally {
      parked.answer();
      closed.removeEventListener('abort', parked.answer);
    }
  }

  #answer(session: Session, { request, arrivedAt, parts }: Call, refused: readonly Lease[]): string {
    const { serverId, leaseMs, marginMs, heartbeatMs } = this.#options;
    const runs = session.outbox;
    session.outbox = [];
    // One that goes from server to server is not expected back at once.
    if (runs.length > 0 && !isRoaming(session)) session.fedAt = monotonicMs();
    for (const { held } of runs) held.call = request.n;
    const cancel = session.cancels;
    session.cancels = [];
    const head = JSON.stringify({
      server_id: serverId,
      // Counted from when the call was sent, which was before it arrived.
      lease_ms: Math.max(0, Math.floor(Math.min(leaseMs, leaseMs - (arrivedAt - session.renewedAt)))),
      margin_ms: marginMs,
      heartbeat_ms: heartbeatMs,
      brief: session.worker !== null && session.here && !isDoubtful(session),
      describe: session.worker === null,
      drain: session.drainOrdered,
      cancel,
      refused: refused.map(({ run_id, lease_id }) => ({ run_id, lease_id, code: 'lease_lost' })),
    });
    return parts === 1 ? inOnePart(head, runs) : inTwoParts(head, runs);
  }
}

/** What is not sent to the session, and never will be. */
function takeUnsent(session: Session): Lease[] {
  const unsent = session.outbox.map(({ run: { run_id }, held: { lease_id } }) => ({ run_id, lease_id }));
  session.outbox = [];
  for (const { run_id } of unsent) session.held.delete(run_id);
  return unsent;
}

function badReport(errors: FieldError[]): PunctualError {
  const [first] = errors;
  return new PunctualError('invalid_input', { detail: `${first?.path} ${first?.message}`, errors });
}

/** Lets a call wait: until `answer`, which a grant, a cancel, a newer call or the heartbeat calls. */
function park(session: Session, n: number, heartbeatMs: number): Parked & { answered: Promise<void> } {
  let ring: () => void = () => {};
  const answered = new Promise<void>((resolve) => {
    ring = resolve;
  });
  const parked = {
    n,
    answered,
    answer: () => {
      clearTimeout(timer);
      if (session.parked === parked) session.parked = null;
      ring();
    },
  };
  const timer = setTimeout(parked.answer, heartbeatMs);
  session.parked = parked;
  return parked;
}

function addCancels(session: Session, leases: readonly Lease[]): void {
  const known = new Set(session.cancels.map((cancel) => cancel.run_id));
  for (const { run_id, lease_id } of leases)
    if (!known.has(run_id)) session.cancels.push({ run_id, lease_id, reason: 'cancelled' });
}

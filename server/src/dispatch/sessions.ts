// The workers connected to this server, as it sees them: what they hold, what waits to be told to them, and the call
// that waits for an answer. Memory only: the truth about leases is in the book, and losing this costs a heartbeat.
import type { Outcome, SyncRequest, WorkerDescription } from '@punctual/contract';
import { monotonicMs } from '../base/clock.ts';
import type { ClaimedRun } from '../store/claim.ts';
import type { Lane } from '../store/lanes.ts';
import type { Lease } from '../store/settle.ts';

export interface Parked {
  n: number;
  /** Answers the call with whatever waits to be told. */
  answer: () => void;
}

/** That of a run which another server has granted. */
const unknownLease = '';

export interface Held {
  lease_id: string;
  /** The number of the answer that carries it, 0 before it is sent. */
  call: number;
  /** null: granted by another server. */
  lane_id: number | null;
  /** Monotonic ms at which it was granted here. */
  grantedAt?: number | undefined;
  /** It has a row of `checkpoints`, as far as this server knows. */
  keeps?: boolean;
  /** Its job, when that is encrypted; undefined: this server does not know. */
  sealed_job?: string | null | undefined;
}

/** Attempts that were reported, alike and in one call. */
export interface Ended {
  lane_id: number;
  status: Outcome['status'];
  /** From the lease to the outcome; null for runs that were not started. */
  seconds: number | null;
  runs: number;
}

export interface OutgoingGrant {
  /** As its worker gets it. */
  run: ClaimedRun;
  lane: Lane;
  held: Held;
  encrypted: boolean;
  /** Others may wait for its end. */
  awaited: boolean;
  /** The trace it belongs to. */
  traceparent: string | null;
  /** Monotonic ms before which it is not to be started; null: it may start at once. */
  startAt: number | null;
}

export interface Session {
  session_id: string;
  worker_id: string;
  worker: WorkerDescription | null;
  /** What it can serve, as one text: claims are made for all sessions of the same. */
  capability: string;
  accept: boolean;
  /** What the book says: the worker takes nothing new. */
  draining: boolean;
  /** It was ordered to end after what it runs. */
  drainOrdered: boolean;
  /** Runs the worker has or is about to get. */
  held: Map<string, Held>;
  /** Runs whose outcome has come, by the number of the call that brought it: a call that left before may still list them. */
  reported: { n: number; run_ids: string[] }[];
  /** Grants to be carried by the next answer. */
  outbox: OutgoingGrant[];
  cancels: (Lease & { reason: string })[];
  parked: Parked | null;
  /** Monotonic ms of the last answer that brought runs. */
  fedAt: number;
  /** The highest call seen. */
  call: number;
  /** Slots for which a claim is under way. */
  reserved: number;
  /** The book says that the session calls here (store/workers.ts). Nothing is claimed for it before. */
  here: boolean;
  /** Monotonic ms at which something happened after which the book may know leases of the session that nobody has. */
  doubtedAt: number;
  /** Monotonic ms at which the last comparison with the book was begun. */
  comparedAt: number;
  /** Monotonic ms before which it is not compared again unless there is a reason to. */
  restUntil: number;
  /** Monotonic ms until which its next call is expected at any server: it came back from another one lately. */
  roamsUntil: number;
  /** Monotonic ms at which the last successful renewal was begun. */
  renewedAt: number;
  seenAt: number;
  /** It has ended or went elsewhere: what is claimed for it now goes back. */
  closed: boolean;
}

export class Sessions {
  readonly #byId = new Map<string, Session>();

  get(id: string): Session | undefined {
    return this.#byId.get(id);
  }

  open(request: SyncRequest, workerId: string): Session {
    const known = this.#byId.get(request.session_id);
    if (known !== undefined) return known;
    const session: Session = {
      session_id: request.session_id,
      worker_id: workerId,
      worker: null,
      capability: '',
      accept: false,
      draining: false,
      drainOrdered: false,
      held: new Map(),
      reported: [],
      outbox: [],
      cancels: [],
      parked: null,
      fedAt: Number.NEGATIVE_INFINITY,
      call: 0,
      reserved: 0,
      // A session that has called before may have been granted runs by a server that is gone.
      here: request.n === 1,
      doubtedAt: request.n > 1 ? monotonicMs() : Number.NEGATIVE_INFINITY,
      comparedAt: request.n > 1 ? Number.NEGATIVE_INFINITY : monotonicMs(),
      restUntil: Number.NEGATIVE_INFINITY,
      roamsUntil: Number.NEGATIVE_INFINITY,
      renewedAt: Number.NEGATIVE_INFINITY,
      seenAt: 0,
      closed: false,
    };
    this.#byId.set(session.session_id, session);
    return session;
  }

  close(session: Session): void {
    session.closed = true;
    this.#byId.delete(session.session_id);
    session.parked?.answer();
  }

  /** One in its place to which nothing is on its way; what was, and was not sent yet, is left to the old one. */
  replace(old: Session, roamsForMs: number): Session {
    const fresh: Session = {
      ...old,
      held: new Map([...old.held].filter(([, { call }]) => call > 0)),
      outbox: [],
      parked: null,
      reserved: 0,
      here: false,
      doubtedAt: monotonicMs(),
      roamsUntil: monotonicMs() + roamsForMs,
    };
    old.cancels = [];
    this.close(old);
    this.#byId.set(fresh.session_id, fresh);
    return fresh;
  }

  all(): IterableIterator<Session> {
    return this.#byId.values();
  }

  get size(): number {
    return this.#byId.size;
  }
}

/**
 * Has the session called another server since it called here last? That one may have taken back what is on its way to the
 * session here: it is in no list of what runs.
 */
export function wasElsewhere(session: Session, { n, concluded }: Pick<SyncRequest, 'n' | 'concluded'>): boolean {
  // While it waits for our answer nobody takes anything back.
  return session.call > 0 && n > session.call + 1 && concluded >= session.call;
}

/** The book may know leases of the session that nobody has: a next call, with no other open, is to be compared with it. */
export function isDoubtful({ doubtedAt, comparedAt }: Session): boolean {
  return doubtedAt >= comparedAt;
}

/** Something failed that may have been done all the same. Until the session has called again it gets nothing. */
export function doubt(session: Session): void {
  session.here = false;
  session.doubtedAt = monotonicMs();
  session.parked?.answer();
}

/**
 * Of the runs that a call brings something to store of: the jobs of those that are encrypted, by run, and the runs of which
 * this server cannot say, because another granted them.
 */
export function sealedAmong(
  session: Session,
  { outcomes = [], checkpoints = [] }: Pick<SyncRequest, 'outcomes' | 'checkpoints'>,
): { jobs: Map<string, string>; unknown: Set<string> } {
  const jobs = new Map<string, string>();
  const unknown = new Set<string>();
  const look = (run_id: string): void => {
    const job_id = session.held.get(run_id)?.sealed_job;
    if (job_id === undefined) unknown.add(run_id);
    else if (job_id !== null) jobs.set(run_id, job_id);
  };
  for (const { run_id, result, error_message } of outcomes)
    if (result !== undefined || error_message !== undefined) look(run_id);
  for (const { run_id } of checkpoints) look(run_id);
  return { jobs, unknown };
}

/**
 * Takes note of what a call reports: those runs take no slot any more, however calls overtake each other. Answers what
 * ended in which lane, as far as that is known here, and the runs that succeeded and have kept something, which is of no use
 * any more.
 */
export function noteReported(
  session: Session,
  { n, outcomes = [], checkpoints = [] }: Pick<SyncRequest, 'n' | 'outcomes' | 'checkpoints'>,
): Noted {
  const noted: Noted = { ended: [], keepers: [] };
  const saved = new Set(checkpoints.map(({ run_id }) => run_id));
  const now = monotonicMs();
  for (const outcome of outcomes) noteOutcome(session, outcome, { saved, now, noted });
  if (outcomes.length > 0) session.reported.push({ n, run_ids: outcomes.map(({ run_id }) => run_id) });
  return noted;
}

interface Noted {
  ended: Ended[];
  keepers: string[];
}

function noteOutcome(
  session: Session,
  { run_id, lease_id, status }: Outcome,
  { saved, now, noted }: { saved: ReadonlySet<string>; now: number; noted: Noted },
): void {
  const held = heldUnder(session, run_id, lease_id);
  if (status === 'SUCCESS' && (held?.keeps === true || (saved.size > 0 && saved.has(run_id))))
    noted.keepers.push(run_id);
  if (held === null) return;
  session.held.delete(run_id);
  const { lane_id, grantedAt = null } = held;
  if (lane_id === null) return;
  const seconds = grantedAt === null || status === 'RELEASED' ? null : (now - grantedAt) / 1000;
  const last = noted.ended.at(-1);
  if (last?.lane_id === lane_id && last.status === status && last.seconds === seconds) last.runs++;
  else noted.ended.push({ lane_id, status, seconds, runs: 1 });
}

/** An outcome of an earlier lease says nothing about the one the worker has, or is about to get. */
function heldUnder(session: Session, runId: string, leaseId: string): Held | null {
  const held = session.held.get(runId);
  return held !== undefined && (held.lease_id === leaseId || held.lease_id === unknownLease) ? held : null;
}

/**
 * Brings what we think the worker holds in line with what its newest call says, and answers the leases that were lost on
 * the way: granted in an answer that the worker has given up or received, yet neither run nor reported by it.
 */
export function reconcile(session: Session, request: SyncRequest): Lease[] {
  const { running, concluded } = request;
  // Without a list nothing was lost since the last one.
  const lost = running === undefined ? [] : compare(session, new Set(running), concluded);
  session.reported = session.reported.filter(({ n }) => n > concluded);
  return lost;
}

function compare(session: Session, running: ReadonlySet<string>, concluded: number): Lease[] {
  const lost: Lease[] = [];
  for (const [run_id, { lease_id, call }] of session.held) {
    if (running.has(run_id) || call === 0 || call > concluded) continue;
    session.held.delete(run_id);
    if (lease_id !== unknownLease) lost.push({ run_id, lease_id });
  }
  const reported = new Set(session.reported.flatMap(({ run_ids }) => run_ids));
  for (const run_id of running) {
    // Granted by another server: it takes a slot all the same.
    if (!session.held.has(run_id) && !reported.has(run_id))
      session.held.set(run_id, { lease_id: unknownLease, call: concluded, lane_id: null });
  }
  return lost;
}

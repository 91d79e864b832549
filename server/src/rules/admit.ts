// Who may go: which of the runs that want a place under their keys get one. Pure; called by store/admit.ts, which holds the
// keys while it asks.
//
// Order: the higher priority, then the earlier due time. A key that refuses a run for want of places or units refuses all
// that come after it as well, so that a run that needs many units is not overtaken for ever. A run with two keys (its own,
// and that of its user in a fair queue) goes only if both let it; it is filed under the one that refused it.

/** A key as it stands, held by whoever asks. */
export interface KeyState {
  key: string;
  /** Places left; infinite without a limit. */
  room: number;
  bucket: Bucket | null;
  /** Nothing may go for so many ms; 0 or less when it may. */
  blocked_ms: number;
}

export interface Bucket {
  tokens: number;
  burst: number;
  /** Units that come back in a millisecond. */
  per_ms: number;
  /** Units of runs that were admitted and have not started. */
  unstarted: number;
}

export interface Candidate {
  run_id: string;
  keys: readonly string[];
  units: number;
  priority: number;
  /** Microseconds since 1970. */
  due_us: number;
}

export interface Decision<C extends Candidate> {
  /** In the order in which they go. */
  admitted: C[];
  /** Those that stay, with the key that keeps them. */
  refused: { run: C; key: string }[];
  /** For keys with a rate or a block that refused somebody: in how many ms the next may go. */
  look_in_ms: Map<string, number>;
}

/** While admitted runs wait for a worker a bucket does not fill up: it is looked at this often. */
const unstartedLookMs = 50;
/** Sums of fractions are never quite what they should be. */
const epsilon = 1e-6;

/**
 * The bucket after a while. What was admitted and has not started takes up room in it, so that runs which waited for a
 * worker for an hour are not followed by a full burst.
 */
export function refill(bucket: Bucket, elapsedMs: number): Bucket {
  const full = bucket.burst - bucket.unstarted;
  return { ...bucket, tokens: Math.min(full, bucket.tokens + Math.max(0, elapsedMs) * bucket.per_ms) };
}

/** Places and units that are left are taken off the states as they are given away. */
export function decide<C extends Candidate>(
  keys: ReadonlyMap<string, KeyState>,
  candidates: readonly C[],
): Decision<C> {
  const decision: Decision<C> = { admitted: [], refused: [], look_in_ms: new Map() };
  const shut = new Set<string>();
  for (const run of [...candidates].sort(inOrder)) {
    const states = run.keys.map((key) => stateOf(keys, key));
    const refusing = states.find((state) => shut.has(state.key) || !hasRoom(state, run.units));
    if (refusing === undefined) {
      for (const state of states) take(state, run.units);
      decision.admitted.push(run);
      continue;
    }
    decision.refused.push({ run, key: refusing.key });
    if (shut.has(refusing.key)) continue;
    shut.add(refusing.key);
    const ms = lookInMs(refusing, run.units);
    if (ms !== null) decision.look_in_ms.set(refusing.key, ms);
  }
  return decision;
}

/** How many of those that wait under a key are worth reading: as many as may go, and one more to know when it may. */
export function worthReading({ room, bucket, blocked_ms }: KeyState): number {
  if (room <= 0) return 0;
  if (blocked_ms > 0) return 1;
  return bucket === null ? room : Math.min(room, Math.max(0, Math.floor(bucket.tokens + epsilon)) + 1);
}

function inOrder(a: Candidate, b: Candidate): number {
  return b.priority - a.priority || a.due_us - b.due_us || (a.run_id < b.run_id ? -1 : 1);
}

function stateOf(keys: ReadonlyMap<string, KeyState>, key: string): KeyState {
  const state = keys.get(key);
  if (state === undefined) throw new Error(`the key ${key} is not held`);
  return state;
}

function hasRoom({ room, bucket, blocked_ms }: KeyState, units: number): boolean {
  return room >= 1 && blocked_ms <= 0 && (bucket === null || bucket.tokens + epsilon >= needed(bucket, units));
}

/** One that needs more than the bucket holds goes when it is full, and leaves a debt. */
function needed({ burst }: Bucket, units: number): number {
  return Math.min(units, burst);
}

function take(state: KeyState, units: number): void {
  state.room -= 1;
  if (state.bucket !== null) state.bucket.tokens -= units;
}

/** null: only the end of another run makes room. */
function lookInMs({ room, bucket, blocked_ms }: KeyState, units: number): number | null {
  if (room < 1) return null;
  if (bucket === null) return blocked_ms;
  const fill = (needed(bucket, units) - bucket.tokens) / bucket.per_ms;
  return Math.max(1, blocked_ms, fill, bucket.unstarted > 0 ? unstartedLookMs : 0);
}

/** The key under which a user's runs of a fair queue wait: with blanks, which no concurrency key has. */
export function fairKey(queue: string, userId: string | null): string {
  return `user ${queue} ${userId ?? ''}`;
}

export function fairRoom(
  { share, weights }: { share: number; weights: Record<string, number> },
  userId: string | null,
): number {
  const user = userId ?? '';
  return Math.max(1, Math.round(share * (Object.hasOwn(weights, user) ? (weights[user] ?? 1) : 1)));
}

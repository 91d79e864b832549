// When a circuit breaker trips, and what the probe it lets through says. Pure.

export interface BreakerFacts {
  state: 'closed' | 'open' | 'probing';
  error_rate: number;
  min_attempts: number;
  window_ms: number;
  cool_down_ms: number;
  /** How long it has been in this state. */
  since_ms: number;
  succeeded: number;
  failed: number;
  /** What became of the run that was let through; null while there is none. */
  probe: 'live' | 'succeeded' | 'failed' | 'gone' | null;
}

export type BreakerStep =
  | { to: 'open'; note: string }
  | { to: 'closed'; note: string }
  /** Let one run through. */
  | { to: 'probing' }
  | null;

export function judgeBreaker(facts: BreakerFacts): BreakerStep {
  const { state, since_ms, cool_down_ms } = facts;
  if (state === 'closed') return trips(facts) ? { to: 'open', note: tripNote(facts) } : null;
  if (state === 'open') return since_ms >= cool_down_ms ? { to: 'probing' } : null;
  if (facts.probe === 'succeeded') return { to: 'closed', note: 'circuit breaker: the probe succeeded' };
  if (facts.probe === 'failed') return { to: 'open', note: 'circuit breaker: the probe failed as well' };
  // It was cancelled, or whoever was to let it through is gone: another one.
  return facts.probe === 'gone' || (facts.probe === null && since_ms >= cool_down_ms) ? { to: 'probing' } : null;
}

function trips({ succeeded, failed, error_rate, min_attempts }: BreakerFacts): boolean {
  const attempts = succeeded + failed;
  return attempts >= min_attempts && failed / attempts >= error_rate;
}

function tripNote({ succeeded, failed, window_ms }: BreakerFacts): string {
  const attempts = succeeded + failed;
  const percent = Math.round((failed / attempts) * 100);
  return `circuit breaker: ${percent} % of ${attempts} attempts failed within ${Math.round(window_ms / 1000)} s`;
}

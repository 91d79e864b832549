// The monotonic clock that both threads of a worker read alike; that of `performance` begins anew in each.

/** Milliseconds since some moment. */
export function sharedNow(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

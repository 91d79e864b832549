// Where the next claim goes, for one group of workers. A claim works on one segment, yet across all of them a better lane
// goes before a worse one. So each segment that may hold work has a rank: no ready run there is in a better lane (0 is
// the best). The segment with the best rank is next, and its claim takes only lanes up to the rank that another segment
// may hold as well; what is worse waits until nobody has better. A wake from somebody who does not know the lane says 0:
// the claim then finds nothing that good and the rank falls.
//
// Pure memory of one server. A rank that is too good costs a statement, one that is too bad is corrected by the next wake.

export class HotSegments {
  /** By segment the best rank that may be there, in the order in which they were heard of. */
  readonly #hot = new Map<number, number>();
  /** Claims under way: by segment the best rank that may be left there. */
  readonly #claiming = new Map<number, number>();

  constructor(segments: Iterable<number>) {
    for (const segment of segments) this.#hot.set(segment, 0);
  }

  /** Nothing is known to be waiting. */
  get idle(): boolean {
    return this.#hot.size === 0;
  }

  wake(segment: number, rank = 0): void {
    const known = this.#hot.get(segment);
    if (known === undefined || rank < known) this.#hot.set(segment, rank);
  }

  /** The segment to claim from and the worst rank to take; it is under way until `ended`. Null when nothing may start now. */
  next(): { segment: number; upTo: number } | null {
    let best: { segment: number; rank: number } | null = null;
    let upTo = Math.min(Number.POSITIVE_INFINITY, ...this.#claiming.values());
    for (const [segment, rank] of this.#hot) {
      if (this.#claiming.has(segment)) continue;
      if (best === null || rank < best.rank) {
        if (best !== null) upTo = Math.min(upTo, best.rank);
        best = { segment, rank };
      } else {
        upTo = Math.min(upTo, rank);
      }
    }
    // What is being claimed elsewhere may be better than all we know of: it goes first.
    if (best === null || best.rank > upTo) return null;
    this.#hot.delete(best.segment);
    this.#claiming.set(best.segment, best.rank);
    return { segment: best.segment, upTo };
  }

  /** The claim is over; runs of `rank` or worse may be left, or none when it is null. */
  ended(segment: number, rank: number | null): void {
    this.#claiming.delete(segment);
    if (rank !== null) this.wake(segment, rank);
  }
}

// Random choices that a seed repeats, for tests that print theirs.

/** Whole numbers from 0 up to below what is asked. */
export type Random = (below: number) => number;

/** The same numbers for the same seed. */
export function randomOf(seed: number): Random {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >>> 8) % below;
  };
}

export function oneOf<T>(random: Random, all: readonly T[]): T {
  const one = all[random(all.length)];
  if (one === undefined) throw new Error('there is nothing to choose from');
  return one;
}

export function shuffled<T>(random: Random, all: readonly T[]): T[] {
  return all
    .map((one) => ({ one, at: random(1_000_000) }))
    .sort((a, b) => a.at - b.at)
    .map(({ one }) => one);
}

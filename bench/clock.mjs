// Time for all programs of the bench. `tick` is CLOCK_MONOTONIC, which every process of the machine shares, so a
// moment taken in one can be compared with one taken in another; `wall` is the time of day that due times are given in.
export const tick = () => Number(process.hrtime.bigint()) / 1e6;

export const wall = () => performance.timeOrigin + performance.now();

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Asks again until the answer is true; fails with the words of `what` when it never is. */
export async function until(what, isTrue, { everyMs = 10, withinMs = 120_000 } = {}) {
  const giveUpAt = tick() + withinMs;
  while (!(await isTrue())) {
    if (tick() > giveUpAt) throw new Error(`waited ${withinMs / 1000} s in vain: ${what}`);
    await sleep(everyMs);
  }
}

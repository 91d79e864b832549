// Waits for something to become true: asks again and again until a deadline, and fails with the last reason. The deadline is
// for a machine that is slow and stands still now and then: it costs nothing where all is well.

export async function eventually<T>(ask: () => Promise<T> | T, { withinMs = 60_000, everyMs = 20 } = {}): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

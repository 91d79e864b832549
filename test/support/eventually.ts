// Waits for something to become true: asks again and again until a deadline, and fails with the last reason.

export async function eventually<T>(ask: () => Promise<T> | T, { withinMs = 10_000, everyMs = 20 } = {}): Promise<T> {
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

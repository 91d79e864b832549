// The other end of startProgram() in children.mjs: answers questions, one function each, and tells counts.
export function answer(questions) {
  process.on('message', async ({ question, what, values }) => {
    if (question === undefined) return;
    try {
      process.send({ question, answer: (await questions[what](values)) ?? null });
    } catch (error) {
      process.send({ question, error: error.stack ?? String(error) });
    }
  });
  // Without the bench there is nothing to do, and nobody who would stop us.
  process.on('disconnect', () => process.exit(0));
}

/** Tells the bench how far we are, as long as it changes. */
export function tellCount(count, everyMs = 10) {
  let told = -1;
  setInterval(() => {
    const n = count();
    if (n === told) return;
    told = n;
    process.send({ count: n });
  }, everyMs).unref();
}

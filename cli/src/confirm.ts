// Asks a person before something wide is done. Whoever is not at a terminal must have said --yes.
import { createInterface } from 'node:readline';
import { UsageError } from './failure.ts';
import type { Output } from './output.ts';

type Input = NodeJS.ReadableStream & { isTTY?: boolean };

/** Whether somebody can be asked; if not, says what to do instead. */
export function refuseUnasked(what: string, input: Input = process.stdin): void {
  if (input.isTTY !== true) throw new UsageError(`${what}; --yes says that you mean it.`);
}

/** True only for `y` or `yes`; the end of the input is a no. */
export async function confirmed(output: Output, question: string, input: Input = process.stdin): Promise<boolean> {
  output.remark(`${question} [y/N]`);
  const lines = createInterface({ input });
  try {
    const answer = await lines[Symbol.asyncIterator]().next();
    return answer.done !== true && /^y(es)?$/i.test(answer.value.trim());
  } finally {
    lines.close();
  }
}

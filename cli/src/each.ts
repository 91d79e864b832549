// One command for several ids: each by itself, so that one that cannot be done does not keep the others from it. Used by
// cancel, retry, redrive and discard.
import { reportFailure } from './failure.ts';
import type { ClientSession } from './session.ts';

export interface Each<Answer> {
  /** What the ids are of, for the line above a failure. */
  noun: string;
  act(id: string): Promise<Answer>;
  /** What was done, in words. */
  tell(answer: Answer, id: string): string;
}

/** Exit code 1 if any of them failed. */
export async function eachId<Answer>(
  { output, url, verbose }: Pick<ClientSession, 'output' | 'url' | 'verbose'>,
  ids: readonly string[],
  { noun, act, tell }: Each<Answer>,
): Promise<number> {
  let failed = 0;
  for (const id of ids) {
    try {
      const answer = await act(id);
      if (output.asJson) output.jsonLine(answer);
      else output.line(tell(answer, id));
    } catch (error) {
      failed += 1;
      if (ids.length === 1) throw error;
      output.remark(`${noun} ${id}`);
      await reportFailure(output, error, { url, verbose });
    }
  }
  return failed === 0 ? 0 : 1;
}

// A terminal at which the CLI is used against a house: commands as lists of words, what they print, JSON parsed.
import assert from 'node:assert/strict';
import { type Ended, runPunctual } from './process.ts';

export interface Terminal {
  ask: (words: string[], input?: string) => Promise<Ended>;
  /** What a command printed that must succeed. */
  succeeds: (words: string[], input?: string) => Promise<string>;
  /** The same, printed as JSON and parsed. */
  parsed: <T>(words: string[], input?: string) => Promise<T>;
}

export function terminalOf({ url }: { url: string }): Terminal {
  const ask: Terminal['ask'] = (words, input = '') =>
    runPunctual(words, { env: { PUNCTUAL_URL: url, TZ: 'UTC' }, input });
  const succeeds: Terminal['succeeds'] = async (words, input) => {
    const { code, stdout, stderr } = await ask(words, input);
    assert.equal(code, 0, `punctual ${words.join(' ')}\n${stdout}${stderr}`);
    return stdout;
  };
  return {
    ask,
    succeeds,
    parsed: async <T>(words: string[], input?: string) => JSON.parse(await succeeds([...words, '--json'], input)) as T,
  };
}

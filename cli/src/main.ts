// The program `punctual`: what happens with its words, and when a command fails. bin/punctual.js runs this file.
import { type Command, CommanderError } from 'commander';
import { reportFailure } from './failure.ts';
import { createOutput, flushed, quietWhenClosed } from './output.ts';
import { buildProgram, stays } from './program.ts';
import { defaultUrl } from './session.ts';

async function run(words: string[]): Promise<number> {
  const program = await buildProgram(words);
  // What nobody caught: the children of this process end with it.
  process.on('uncaughtException', (error) => void report(program, error).finally(() => process.exit(1)));
  try {
    if (words.length === 0) program.outputHelp();
    else await program.parseAsync(words, { from: 'user' });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    // Help and version end this way too, with code 0; commander has printed what there is to say.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    return await report(program, error);
  }
}

async function report(program: Command, error: unknown): Promise<number> {
  const {
    url = defaultUrl(),
    json = false,
    verbose = false,
  } = program.opts<{ url?: string; json?: boolean; verbose?: boolean }>();
  return await reportFailure(createOutput({ json }), error, { url, verbose });
}

/** `help jobs create` and `jobs help create` mean `jobs create --help`. */
function asFlags(words: string[]): string[] {
  const at = words.indexOf('help');
  return at === 0 || at === 1 ? [...words.toSpliced(at, 1), '--help'] : words;
}

const words = asFlags(process.argv.slice(2));
quietWhenClosed(() => {
  if (!stays(words)) process.exit(0);
});
const exitCode = await run(words);
await flushed();
process.exit(exitCode);

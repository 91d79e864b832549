// The hooks of mutate.ts: the text of the file that a mutant changes.
import type { LoadFnOutput, LoadHook } from 'node:module';
import { mutants } from './mutants.ts';

let name = '';

export function initialize(given: string): void {
  name = given;
}

export const load: LoadHook = async (url, context, nextLoad) => {
  const loaded = await nextLoad(url, context);
  const mutant = mutants[name];
  if (mutant === undefined || !url.endsWith(mutant.file)) return loaded;
  let text = textOf(loaded.source);
  for (const [from, to] of mutant.changes) {
    if (!text.includes(from)) throw new Error(`the text of the mutant "${name}" is not in ${url}: ${from}`);
    text = text.replaceAll(from, () => to);
  }
  return { ...loaded, source: text };
};

function textOf(source: LoadFnOutput['source']): string {
  if (source === undefined || typeof source === 'string') return source ?? '';
  return new TextDecoder().decode(source);
}

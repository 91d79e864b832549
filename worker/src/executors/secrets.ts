// References to secrets in an executor, `{{secret:NAME}}`, filled in on the worker that runs the job and nowhere else. What is
// filled in is hidden in all that the run says (ctx.secret). Used by http.ts and shell.ts.
import { secretProblems, secretReference } from '@punctual/contract/plain';
import { FatalError, type Redactor, type RunContext } from '@punctual/sdk';

/** Values by name. */
export type FoundSecrets = ReadonlyMap<string, string>;

/** The secrets that a part of an executor refers to; throws a FatalError when one is missing. */
export async function findSecrets(value: unknown, where: string, ctx: RunContext): Promise<FoundSecrets> {
  const [problem] = secretProblems(value, where);
  if (problem !== undefined) throw new FatalError(`The ${problem.path} ${problem.message}.`);
  const found = new Map<string, string>();
  for (const name of new Set(namesIn(value))) found.set(name, await ctx.secret(name));
  return found;
}

/** Throws when a secret is named where others could read it. */
export function refuseSecrets(value: unknown, where: string): void {
  const [problem] = secretProblems(value, where, true);
  if (problem !== undefined) throw new FatalError(`The ${problem.path} ${problem.message}.`);
}

function namesIn(value: unknown): string[] {
  if (typeof value === 'string') return [...value.matchAll(secretReference)].map((match) => match[1] ?? '');
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(namesIn);
}

/** A text with the values in the places of the references. What they bring is not looked at again. */
export function fillSecrets(text: string, secrets: FoundSecrets): string {
  return secrets.size === 0 ? text : text.replace(secretReference, (_, name: string) => secrets.get(name) ?? '');
}

/** JSON without what is to be hidden. */
export function redactJson(value: unknown, redactor: Redactor): unknown {
  if (typeof value === 'string') return redactor.values(value);
  if (Array.isArray(value)) return value.map((one) => redactJson(one, redactor));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [redactor.values(key), redactJson(one, redactor)]),
  );
}

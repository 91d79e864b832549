// Secrets by reference: `{{secret:NAME}}` in an executor stands for a value that only workers have. What a name is, where a
// reference may stand, and how it is found in a text. Pure: the server checks with it, the worker fills in with it.

export const secretNamePattern = '^[A-Z][A-Z0-9_]{0,99}$';

/** A reference, with what stands where the name belongs. */
export const secretReference = /\{\{\s*secret:\s*([^{}]*?)\s*\}\}/g;

const name = new RegExp(secretNamePattern);

export function isSecretReferenceName(text: string): boolean {
  return name.test(text);
}

/** What is wrong with the references in a value, by where they stand in it; `visible`: everybody on the machine can read it. */
export function secretProblems(value: unknown, path: string, visible = false): { path: string; message: string }[] {
  if (typeof value === 'string') return problemsOf(value, path, visible);
  if (Array.isArray(value)) return value.flatMap((one, i) => secretProblems(one, `${path}[${i}]`, visible));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, one]) => secretProblems(one, `${path}.${key}`, visible));
}

function problemsOf(text: string, path: string, visible: boolean): { path: string; message: string }[] {
  const names = [...text.matchAll(secretReference)].map((match) => match[1] ?? '');
  if (visible && names.length > 0)
    return [{ path, message: 'names a secret where everybody on the machine could read it: put it into env' }];
  return names
    .filter((one) => !isSecretReferenceName(one))
    .map((one) => ({
      path,
      message: `names the secret ${JSON.stringify(one)}, which is not a name: write {{secret:NAME}} with capital letters, digits and _`,
    }));
}

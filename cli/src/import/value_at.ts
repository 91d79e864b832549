// Looks into values of unknown shape, such as YAML that anybody may have written. Pure.

/** The value at a path of names, or undefined. */
export function at(value: unknown, ...path: string[]): unknown {
  let inner = value;
  for (const name of path) {
    if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, name)) return undefined;
    inner = (inner as Record<string, unknown>)[name];
  }
  return inner;
}

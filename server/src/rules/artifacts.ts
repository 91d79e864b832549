// Which artifacts an executor, or the steps of a workflow, name. Pure.

/** The hashes in an executor or a definition, as JSON text; each once. Steps may hold workflows of their own. */
export function artifactsOf(json: string | null): string[] {
  // Parsing every definition would cost more than it finds.
  if (json === null || !json.includes('"binary"')) return [];
  const found = new Set<string>();
  collect(JSON.parse(json), found);
  return [...found];
}

interface Named {
  kind?: unknown;
  sha256?: unknown;
  steps?: unknown;
}

interface NamedStep {
  executor?: unknown;
  workflow?: unknown;
}

function collect(value: unknown, found: Set<string>): void {
  const { kind, sha256, steps } = (value ?? {}) as Named;
  if (kind === 'binary' && typeof sha256 === 'string') found.add(sha256);
  if (typeof steps !== 'object' || steps === null) return;
  for (const step of Object.values(steps) as NamedStep[]) {
    collect(step.executor, found);
    collect(step.workflow, found);
  }
}

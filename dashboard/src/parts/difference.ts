// What differs between two values of JSON, field by field, for people. Pure; used by the audit log.

export interface Difference {
  /** `schedule.cron_expression`; empty for the whole. */
  path: string;
  /** Undefined: it was not there, or is there no longer. */
  before: string | undefined;
  after: string | undefined;
}

/** More fields are not shown: a reader would not read them. */
const maxDifferences = 200;

/** Objects are compared field by field, everything else as a whole; null stands for nothing there. */
export function differences(before: unknown, after: unknown): Difference[] {
  const found: Difference[] = [];
  compare('', before ?? undefined, after ?? undefined, found);
  return found;
}

function compare(path: string, before: unknown, after: unknown, found: Difference[]): void {
  if (found.length >= maxDifferences) return;
  if (
    isFields(before ?? after) &&
    (before === undefined || isFields(before)) &&
    (after === undefined || isFields(after))
  ) {
    const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})]);
    for (const name of names) compare(path === '' ? name : `${path}.${name}`, before?.[name], after?.[name], found);
    return;
  }
  const [was, is] = [words(before), words(after)];
  if (was !== is) found.push({ path, before: was, after: is });
}

const isFields = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function words(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** `state: hold → open, note: – → all well`. */
export function inOneLine(found: readonly Difference[]): string {
  return found.map(({ path, before, after }) => `${path}: ${oneLine(before, after)}`.replace(/^: /, '')).join(', ');
}

function oneLine(before: string | undefined, after: string | undefined): string {
  if (before === undefined) return after ?? '';
  return `${before} → ${after ?? '–'}`;
}

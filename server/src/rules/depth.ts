// How deep JSON is nested. Pure; the rules for jobs and for reports of workers ask it before they write JSON as text, which
// recurses.

export function deeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  for (const child of Array.isArray(value) ? value : Object.values(value)) {
    if (typeof child === 'object' && child !== null && deeperThan(child, levels - 1)) return true;
  }
  return false;
}

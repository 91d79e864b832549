// How deep JSON is nested. The rules of the server and the SDK ask before they write JSON as text, which recurses.

export function deeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  for (const child of Array.isArray(value) ? value : Object.values(value)) {
    if (typeof child === 'object' && child !== null && deeperThan(child, levels - 1)) return true;
  }
  return false;
}

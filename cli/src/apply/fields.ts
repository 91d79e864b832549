// Values of objects as files and servers have them: filling in defaults, leaving them out, and what differs between two.
// Pure; used by the plan and by the export, so that both mean the same by "nothing to change".

export type Fields = Record<string, unknown>;

/** One field that differs; `undefined` stands for one that is not there. */
export interface Change {
  path: string;
  before: unknown;
  after: unknown;
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Equal as JSON, whatever the order of the fields. */
export function same(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((one, i) => same(one, b[i]));
  if (!isFields(a) || !isFields(b)) return a === b;
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length && names.every((name) => Object.hasOwn(b, name) && same(a[name], b[name]))
  );
}

/** With the defaults where nothing is given; a null is given. */
export function filled(given: Fields, defaults: Fields): Fields {
  const whole: Fields = {};
  for (const [name, value] of Object.entries(given)) {
    const preset = own(defaults, name);
    set(whole, name, isFields(value) && isFields(preset) ? filled(value, preset) : value);
  }
  for (const [name, preset] of Object.entries(defaults)) if (!Object.hasOwn(whole, name)) set(whole, name, preset);
  return whole;
}

/** Without what is as the defaults have it. */
export function stripped(value: Fields, defaults: Fields): Fields {
  const rest: Fields = {};
  for (const [name, one] of Object.entries(value)) {
    const preset = own(defaults, name);
    if (one === undefined || (Object.hasOwn(defaults, name) && same(one, preset))) continue;
    set(rest, name, isFields(one) && isFields(preset) ? stripped(one, preset) : one);
  }
  return rest;
}

export function differences(before: Fields, after: Fields, inside = ''): Change[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name): Change[] => {
    const [old, now] = [own(before, name), own(after, name)];
    const path = inside + step(name, inside === '');
    if (same(old, now)) return [];
    return isFields(old) && isFields(now) ? differences(old, now, path) : [{ path, before: old, after: now }];
  });
}

/** `a.b`, or `a["b c"]` when the name is not plain. */
export function step(name: string | number, isFirst: boolean): string {
  if (typeof name === 'number') return `[${name}]`;
  if (!/^[\w-]+$/.test(name)) return `[${JSON.stringify(name)}]`;
  return isFirst ? name : `.${name}`;
}

/** A field of its own, also one that is called __proto__. */
function set(fields: Fields, name: string, value: unknown): void {
  Object.defineProperty(fields, name, { value, enumerable: true, configurable: true, writable: true });
}

function own(fields: Fields, name: string): unknown {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

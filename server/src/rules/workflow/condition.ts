// Conditions of steps: small JSON, no code. `{"value": "{{…}}", "is": …}` compares; `all`, `any` and `none` combine.
import { limits } from '@punctual/contract';
import { compileTemplate, type Reference, type Scope, type Template, TemplateError } from './template.ts';

export interface Condition {
  references: readonly Reference[];
  holds: (scope: Scope) => boolean;
}

type Refuse = (path: string, message: string) => void;
type Compare = (value: unknown, other: unknown) => boolean;

const compares: Record<string, Compare> = {
  is: equal,
  not: (a, b) => !equal(a, b),
  gt: (a, b) => order(a, b) > 0,
  gte: (a, b) => order(a, b) >= 0,
  lt: (a, b) => order(a, b) < 0,
  lte: (a, b) => order(a, b) <= 0,
  in: (a, list) => {
    if (!Array.isArray(list)) throw new TemplateError('The condition `in` needs a list to look in.');
    return list.some((one) => equal(a, one));
  },
};
const operators = [...Object.keys(compares), 'exists'];
const groups = ['all', 'any', 'none'];

export function compileCondition(input: unknown, path: string, refuse: Refuse): Condition {
  let count = 0;
  const compile = (value: unknown, at: string): Condition => {
    if (++count > limits.max_conditions) {
      if (count === limits.max_conditions + 1) refuse(path, `has more than ${limits.max_conditions} conditions`);
      return always;
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      refuse(at, 'must be a condition such as {"value": "{{input.x}}", "is": 1}');
      return always;
    }
    const names = Object.keys(value);
    const [group] = names;
    if (names.length === 1 && group !== undefined && groups.includes(group))
      return combine(group, (value as Record<string, unknown>)[group], at);
    return compileComparison(value as Record<string, unknown>, at, refuse);
  };
  const combine = (group: string, list: unknown, at: string): Condition => {
    if (!Array.isArray(list) || list.length === 0) {
      refuse(`${at}.${group}`, 'must be a list of conditions');
      return always;
    }
    const inner = list.map((one, i) => compile(one, `${at}.${group}[${i}]`));
    const references = inner.flatMap((one) => one.references);
    if (group === 'all') return { references, holds: (scope) => inner.every((one) => one.holds(scope)) };
    const some = (scope: Scope): boolean => inner.some((one) => one.holds(scope));
    return { references, holds: group === 'any' ? some : (scope) => !some(scope) };
  };
  return compile(input, path);
}

const always: Condition = { references: [], holds: () => true };

function compileComparison(given: Record<string, unknown>, at: string, refuse: Refuse): Condition {
  const names = Object.keys(given).filter((name) => name !== 'value');
  const [operator = ''] = names;
  if (names.length !== 1 || !operators.includes(operator) || !Object.hasOwn(given, 'value')) {
    refuse(at, `needs "value" and exactly one of ${operators.join(', ')}, or only one of ${groups.join(', ')}`);
    return always;
  }
  const value = compileTemplate(given['value'], (message) => refuse(`${at}.value`, message));
  if (operator === 'exists') return existence(value, given['exists'], at, refuse);
  const other = compileTemplate(given[operator], (message) => refuse(`${at}.${operator}`, message));
  const compare = compares[operator] as Compare;
  return {
    references: [...value.references, ...other.references],
    holds: (scope) => compare(value.render(scope), other.render(scope)),
  };
}

function existence(value: Template, wanted: unknown, at: string, refuse: Refuse): Condition {
  if (typeof wanted !== 'boolean') refuse(`${at}.exists`, 'must be true or false');
  const exists = (scope: Scope): boolean => {
    try {
      const found = value.render(scope);
      return found !== undefined && found !== null;
    } catch (error) {
      // What is there and cannot be read is not missing.
      if (error instanceof TemplateError && error.reason === 'invalid') return false;
      throw error;
    }
  };
  return { references: value.references, holds: (scope) => exists(scope) === wanted };
}

function order(a: unknown, b: unknown): number {
  if ((typeof a === 'number' && typeof b === 'number') || (typeof a === 'string' && typeof b === 'string'))
    return a < b ? -1 : a > b ? 1 : 0;
  throw new TemplateError('The conditions gt, gte, lt and lte compare two numbers or two texts.');
}

/** The same JSON, whatever the order of its fields. */
function equal(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every(
      (key) => Object.hasOwn(b, key) && equal((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key]),
    )
  );
}

// Templates: `{{steps.extract.result.rows}}`, `{{input.day}}`, `{{item.id}}`, `{{index}}` within JSON. A look-up of a path in
// plain JSON and nothing else: own properties only, no code. A text that is exactly one template becomes the JSON it names;
// templates within a longer text become text. `\{{` stands for `{{`. Compiled once, rendered for each step or item.

export type StepField = 'result' | 'outcome' | 'error';

export interface Reference {
  /** As it was written, for messages. */
  path: string;
  root: 'steps' | 'input' | 'item' | 'index';
  /** For `steps`: which, and what of it. */
  step: string;
  field: StepField;
  keys: readonly string[];
}

/** What templates may name. Throws TemplateError for what is not there. */
export interface Scope {
  input: unknown;
  item?: unknown;
  index?: number;
  stepField: (step: string, field: StepField, path: string) => unknown;
}

export interface Template {
  references: readonly Reference[];
  render: (scope: Scope) => unknown;
}

/** Why a step cannot begin: something in it is wrong, or what it needs cannot be read. */
export type FailReason = 'invalid' | 'cannot_decrypt' | 'result_not_encrypted';

/** What a template names does not exist or cannot be read; the message is for people. */
export class TemplateError extends Error {
  readonly reason: FailReason;
  constructor(message: string, reason: FailReason = 'invalid') {
    super(message);
    this.reason = reason;
  }
}

const pattern = /\\\{\{|\{\{([^{}]*)\}\}|\{\{/g;
const roots = ['steps', 'input', 'item', 'index'] as const;
const fields: readonly string[] = ['result', 'outcome', 'error'];
/** Names that reach behind plain data in JavaScript; nobody needs them. */
const refusedKeys = new Set(['__proto__', 'prototype', 'constructor']);

/** `refuse` is told what is wrong with a template. */
export function compileTemplate(value: unknown, refuse: (message: string) => void): Template {
  if (typeof value === 'string') return compileText(value, refuse);
  if (Array.isArray(value)) {
    const inner = value.map((one) => compileTemplate(one, refuse));
    if (inner.every(isPlain)) return plain(inner.map((one) => one.render(nowhere)));
    return { references: inner.flatMap(referencesOf), render: (scope) => inner.map((one) => one.render(scope)) };
  }
  if (typeof value === 'object' && value !== null) {
    const inner = Object.entries(value).map(([key, one]) => [key, compileTemplate(one, refuse)] as const);
    if (inner.every(([, one]) => isPlain(one)))
      return plain(Object.fromEntries(inner.map(([key, one]) => [key, one.render(nowhere)])));
    return {
      references: inner.flatMap(([, one]) => referencesOf(one)),
      render: (scope) => Object.fromEntries(inner.map(([key, one]) => [key, one.render(scope)])),
    };
  }
  return plain(value);
}

/** What plain JSON is rendered with. */
const nowhere: Scope = { input: null, stepField: () => null };

export const isPlain = (template: Template): boolean => 'plain' in template;
const referencesOf = (template: Template): readonly Reference[] => template.references;
const plain = (value: unknown): Template & { plain: true } => ({ plain: true, references: [], render: () => value });

function compileText(text: string, refuse: (message: string) => void): Template {
  if (!text.includes('{{')) return plain(text);
  const parts: (string | Reference)[] = [];
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    parts.push(text.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[0] === '\\{{') parts.push('{{');
    else if (match[1] === undefined) refuse('has {{ without }}; write \\{{ for the characters themselves');
    else {
      const reference = parseReference(match[1].trim());
      if (typeof reference === 'string') refuse(`{{${match[1]}}} ${reference}`);
      else parts.push(reference);
    }
  }
  parts.push(text.slice(at));
  const kept = parts.filter((part) => part !== '');
  const references = kept.filter((part) => typeof part !== 'string');
  if (references.length === 0) return plain(kept.filter((part) => typeof part === 'string').join(''));
  const [only] = kept;
  if (kept.length === 1 && typeof only === 'object') return { references, render: (scope) => lookUp(only, scope) };
  return {
    references,
    render: (scope) => kept.map((part) => (typeof part === 'string' ? part : asText(lookUp(part, scope)))).join(''),
  };
}

function parseReference(path: string): Reference | string {
  const keys = [...path.replace(/\[(\d{1,9})\]/g, '.$1').split('.')];
  if (keys.some((key) => !/^[^\s[\]"'`()\\]+$/.test(key)))
    return 'is not a path; write names and numbers with dots, such as {{steps.extract.result.rows}}';
  const refused = keys.find((key) => refusedKeys.has(key));
  if (refused !== undefined) return `names ${refused}, which is not allowed`;
  const [root = '', step = '', field = ''] = keys;
  if (!(roots as readonly string[]).includes(root)) return `must begin with one of ${roots.join(', ')}`;
  const found = { path, root: root as Reference['root'], step: '', field: 'result' as const, keys: keys.slice(1) };
  if (root === 'index') return keys.length === 1 ? found : 'must be {{index}} alone';
  if (root !== 'steps') return found;
  if (!fields.includes(field))
    return `must name a step and its ${fields.join(', ')}, such as {{steps.${step || 'extract'}.result}}`;
  if (field !== 'result' && keys.length > 3) return `must be {{steps.${step}.${field}}} alone`;
  return { ...found, step, field: field as StepField, keys: keys.slice(3) };
}

function lookUp(reference: Reference, scope: Scope): unknown {
  const { root, path, keys } = reference;
  if (root === 'index') return scope.index;
  let at: unknown =
    root === 'steps'
      ? scope.stepField(reference.step, reference.field, path)
      : root === 'item'
        ? scope.item
        : scope.input;
  for (const key of keys) {
    const has = Array.isArray(at)
      ? /^\d+$/.test(key) && Number(key) < at.length
      : typeof at === 'object' && at !== null && Object.hasOwn(at, key);
    if (!has) throw new TemplateError(`{{${path}}}: there is no ${key}.`);
    at = (at as Record<string, unknown>)[key];
  }
  return at;
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

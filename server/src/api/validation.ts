// Input against the contract's schemas: nothing is coerced in a body, nothing unknown is dropped, and each error says
// where, what and how to mend it. Query strings are text, so there numbers are read from it.
import { type FieldError, type Route } from '@punctual/contract';
import { Ajv, type ErrorObject, str, type ValidateFunction } from 'ajv';
import addFormatsModule from 'ajv-formats';
import type { TSchema } from 'typebox';
import { closest } from '../rules/closest.ts';

// ajv-formats is CommonJS: its function is the default of the default.
const addFormats = addFormatsModule as unknown as (ajv: Ajv) => void;

const maxErrors = 20;

const strict = new Ajv({
  allErrors: true,
  coerceTypes: false,
  removeAdditional: false,
  useDefaults: false,
  strict: true,
  strictTypes: false,
  allowUnionTypes: true,
});
const lenient = new Ajv({
  allErrors: true,
  coerceTypes: true,
  removeAdditional: false,
  useDefaults: false,
  strict: true,
  strictTypes: false,
});
for (const ajv of [strict, lenient]) {
  addFormats(ajv);
  addQuickTime(ajv);
  addQuickLength(ajv);
}

/** Times that are given together lie close together: one of the same second as a good one differs in three digits only. */
function addQuickTime(ajv: Ajv): void {
  const { validate: isTime } = ajv.formats['date-time'] as { validate: (text: string) => boolean };
  let second = '-';
  const validate = (text: string): boolean => {
    if (text.length === 24 && text.startsWith(second) && milliseconds.test(text)) return true;
    if (!isTime(text)) return false;
    if (text.length === 24 && milliseconds.test(text)) second = text.slice(0, 20);
    return true;
  };
  ajv.addFormat('date-time', { validate });
}

const milliseconds = /\.\d\d\dZ$/;

/** Ajv counts the characters of every text; one that has no more code units than it may have characters needs no counting. */
function addQuickLength(ajv: Ajv): void {
  ajv.removeKeyword('maxLength');
  ajv.addKeyword({
    keyword: 'maxLength',
    type: 'string',
    schemaType: 'number',
    validate: (most: number, text: string) => text.length <= most || Array.from(text).length <= most,
    error: { message: ({ schemaCode }) => str`must NOT have more than ${schemaCode} characters` },
  });
}

export type Check = (value: unknown) => FieldError[];

/**
 * A checker for one schema; an empty answer means that the value fits. Compiled when it is first used: all of them at once
 * were a third of what a server needs to start.
 */
export function checker(schema: TSchema, options: { text?: boolean } = {}): Check {
  let validate: ValidateFunction | null = null;
  return (value) => {
    validate ??= (options.text === true ? lenient : strict).compile(schema);
    return validate(value) ? [] : explain(validate, value);
  };
}

export interface RouteChecks {
  params: Check | null;
  query: Check | null;
  headers: Check | null;
  body: Check | null;
}

export function checksOf(route: Route): RouteChecks {
  return {
    params: route.params === undefined ? null : checker(route.params, { text: true }),
    query: route.query === undefined ? null : checker(route.query, { text: true }),
    headers: route.headers === undefined ? null : checker(route.headers, { text: true }),
    body: route.body === undefined ? null : checker(route.body),
  };
}

function explain(validate: ValidateFunction, value: unknown): FieldError[] {
  const seen = new Set<string>();
  const errors: FieldError[] = [];
  for (const error of withoutWrongBranches(validate.errors ?? [])) {
    const explained = explainOne(error, validate.schema, value);
    const key = `${explained.path} ${explained.message}`;
    if (!seen.has(key) && errors.length < maxErrors) errors.push(explained);
    seen.add(key);
  }
  return errors;
}

/** Of a union told apart by `kind`, only the branch that was meant is worth explaining. */
function withoutWrongBranches(errors: ErrorObject[]): ErrorObject[] {
  const branch = (error: ErrorObject): string | undefined => /^(.*\/anyOf\/\d+)\//.exec(error.schemaPath)?.[1];
  const wrongKind = errors.filter((error) => error.keyword === 'const' && error.instancePath.endsWith('/kind'));
  const wrong = new Set(wrongKind.map(branch));
  const kept = errors.filter((error) => error.keyword !== 'anyOf' && !wrong.has(branch(error)));
  if (kept.length > 0) return kept;
  const first = wrongKind[0];
  if (first === undefined) return errors;
  const kinds = wrongKind.map((error) => String(error.params['allowedValue']));
  return [{ ...first, keyword: 'enum', params: { allowedValues: kinds } }];
}

function explainOne(error: ErrorObject, schema: unknown, value: unknown): FieldError {
  const path = pathText(error.instancePath);
  const inside = (name: string): string => (path === '' ? name : `${path}.${name}`);
  const params = error.params as Record<string, unknown>;
  switch (error.keyword) {
    case 'additionalProperties': {
      const name = String(params['additionalProperty']);
      const near = closest(name, propertiesAt(schema, error.schemaPath));
      return {
        path: inside(name),
        message: near === null ? 'is not a known field' : `is not a known field; did you mean ${near}?`,
      };
    }
    case 'required':
      return { path: inside(String(params['missingProperty'])), message: 'is missing' };
    case 'enum':
      return {
        path,
        message: `must be one of ${(params['allowedValues'] as unknown[]).join(', ')}${given(error, value)}`,
      };
    case 'type':
      return {
        path,
        message:
          path === ''
            ? 'the body must be a JSON object'
            : `must be of type ${String(params['type'])}${given(error, value)}`,
      };
    case 'pattern':
      return { path, message: `has characters that are not allowed${patternHint(error)}` };
    default:
      return { path, message: error.message ?? 'is wrong' };
  }
}

function patternHint(error: ErrorObject): string {
  const description = (error.parentSchema as { description?: string } | undefined)?.description;
  return description === undefined ? '' : `: ${description}`;
}

function given(error: ErrorObject, value: unknown): string {
  let at: unknown = value;
  for (const step of error.instancePath.split('/').slice(1)) at = (at as Record<string, unknown> | undefined)?.[step];
  if (typeof at !== 'string' && typeof at !== 'number' && typeof at !== 'boolean') return '';
  return `, not ${JSON.stringify(at).slice(0, 60)}`;
}

/** `/jobs/3/type` → `jobs[3].type` */
function pathText(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((step) => (/^\d+$/.test(step) ? `[${step}]` : `.${step}`))
    .join('')
    .replace(/^\./, '');
}

/** The names of the fields where the schema path points. */
function propertiesAt(schema: unknown, schemaPath: string): string[] {
  let at: unknown = schema;
  for (const step of schemaPath.replace(/^#\//, '').split('/').slice(0, -1))
    at = (at as Record<string, unknown> | undefined)?.[step];
  return Object.keys((at as { properties?: object } | undefined)?.properties ?? {});
}

// Schemas of payloads and results, for typed jobs: anything that speaks Standard Schema (zod, valibot, arktype, …), or plain
// JSON Schema. One function checks a value against either. Used by define-job.ts.
import type { FieldError } from '@punctual/contract';
import type { JsonSchemaType } from '@punctual/contract/json-schema';

/** What libraries of schemas have in common, so that none has to be a dependency; see https://standardschema.dev. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    /** The value as it is after the schema's changes, or what is wrong with it. */
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>;
    /** Never there: it only carries the types. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** What a Standard Schema answers: a value, or issues. */
export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] };

/** One thing that is wrong with a value, and where. */
export interface StandardIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** A Standard Schema, or a JSON Schema written out (its type is read from it), or `jsonSchema<T>(…)`. */
export type AnySchema = object;

/** What a value must be before the schema has seen it: what is sent. */
export type InputOf<S> =
  S extends StandardSchema<infer _I, infer _O> ? NonNullable<S['~standard']['types']>['input'] : JsonSchemaType<S>;

/** What the schema makes of it: what a handler gets. */
export type OutputOf<S> =
  S extends StandardSchema<infer _I, infer _O> ? NonNullable<S['~standard']['types']>['output'] : JsonSchemaType<S>;

/** A JSON Schema for a type that is declared: `jsonSchema<Order>(orderSchema)`. */
export function jsonSchema<T>(schema: object | boolean): StandardSchema<T> {
  let check: ((value: unknown) => FieldError[]) | null = null;
  return {
    '~standard': {
      version: 1,
      vendor: 'punctual',
      async validate(value) {
        check ??= (await import('@punctual/contract/json-schema')).jsonSchemaChecker(schema);
        const errors = check(value);
        if (errors.length === 0) return { value: value as T };
        return { issues: errors.map(({ path, message }) => ({ message, path: path === '' ? [] : [path] })) };
      },
    },
  };
}

export function toStandard(schema: AnySchema): StandardSchema {
  // Some libraries' schemas are functions.
  return '~standard' in schema ? (schema as StandardSchema) : jsonSchema(schema);
}

/** The value as the schema makes it, or the fields that are wrong, each with its path below `root`. */
export async function parseValue(
  schema: StandardSchema,
  value: unknown,
  root: string,
): Promise<{ value: unknown } | { errors: FieldError[] }> {
  const result = await schema['~standard'].validate(value);
  if (result.issues === undefined) return { value: result.value };
  return { errors: result.issues.map(({ message, path = [] }) => ({ path: pathText(root, path), message })) };
}

function pathText(root: string, path: NonNullable<StandardIssue['path']>): string {
  return path.reduce<string>((text, part) => {
    const key = typeof part === 'object' ? part.key : part;
    if (typeof key === 'number') return `${text}[${key}]`;
    return text === '' || String(key).startsWith('[') ? text + String(key) : `${text}.${String(key)}`;
  }, root);
}

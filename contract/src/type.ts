// Builds schemas: plain objects of JSON Schema, with the types that TypeBox gives them. TypeBox itself has seven hundred files,
// and loading them took longer than most commands take; so its types are used, and what the contract needs of it is here.
import type { TSchema, Type as TypeBox } from 'typebox';

type Schema = Record<string, unknown>;

/** Marks a schema whose field may be left out; not seen by who writes it as JSON. */
const optionalMark = '~optional';

const isOptional = (schema: object): boolean => optionalMark in schema;

function optional(schema: object): object {
  const copy = { ...schema };
  Object.defineProperty(copy, optionalMark, { value: true, enumerable: false });
  return copy;
}

function object(properties: Record<string, object>, options: Schema = {}): Schema {
  const required = Object.keys(properties).filter((name) => !isOptional(properties[name] as object));
  return { type: 'object', ...(required.length === 0 ? {} : { required }), properties, ...options };
}

function record(key: { pattern?: string }, value: object, options: Schema = {}): Schema {
  return { type: 'object', patternProperties: { [key.pattern ?? '^.*$']: value }, ...options };
}

const simple =
  (type: string) =>
  (options: Schema = {}): Schema => ({ type, ...options });

export const Type = {
  Object: object as unknown as typeof TypeBox.Object,
  Record: record as unknown as typeof TypeBox.Record,
  Optional: optional as unknown as typeof TypeBox.Optional,
  String: simple('string') as unknown as typeof TypeBox.String,
  Integer: simple('integer') as unknown as typeof TypeBox.Integer,
  Number: simple('number') as unknown as typeof TypeBox.Number,
  Boolean: simple('boolean') as unknown as typeof TypeBox.Boolean,
  Null: simple('null') as unknown as typeof TypeBox.Null,
  Unknown: ((options: Schema = {}) => ({ ...options })) as unknown as typeof TypeBox.Unknown,
  Array: ((items: object, options: Schema = {}) => ({
    type: 'array',
    items,
    ...options,
  })) as unknown as typeof TypeBox.Array,
  Enum: ((values: readonly unknown[], options: Schema = {}) => ({
    enum: values,
    ...options,
  })) as unknown as typeof TypeBox.Enum,
  Literal: ((value: unknown, options: Schema = {}) => ({
    type: typeof value,
    const: value,
    ...options,
  })) as unknown as typeof TypeBox.Literal,
  Union: ((anyOf: readonly object[], options: Schema = {}) => ({
    anyOf,
    ...options,
  })) as unknown as typeof TypeBox.Union,
  /** The schema, said to describe another type. */
  Unsafe: ((schema: TSchema) => schema) as unknown as typeof TypeBox.Unsafe,
};

// Small schemas that several nouns share. Pure, browser-safe.
import type { TSchema } from 'typebox';
import { labelPattern } from './label.ts';
import { defaults, limits } from './limits.ts';
import { Type } from './type.ts';

/** A closed object: unknown fields are refused, so that a typing error never passes silently. */
export function closed<P extends Record<string, TSchema>>(properties: P, options: { description?: string } = {}) {
  return Type.Object(properties, { ...options, additionalProperties: false });
}

export function nullable<S extends TSchema>(schema: S) {
  return Type.Union([schema, Type.Null()]);
}

/** The same schema with other words or defaults; property descriptors are copied because TypeBox keeps hidden ones. */
export function described<S extends TSchema>(schema: S, options: { description?: string; default?: unknown }): S {
  return Object.defineProperties(
    {},
    { ...Object.getOwnPropertyDescriptors(schema), ...Object.getOwnPropertyDescriptors(options) },
  ) as S;
}

export const Id = Type.String({
  pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$',
  description: 'A UUID in lower case',
});

/** Types, queues, users and tags. They stand in URLs, metrics and lanes, hence the narrow alphabet. */
export const Label = Type.String({
  minLength: 1,
  maxLength: limits.max_label_chars,
  pattern: labelPattern,
  description: 'Letters, digits and . _ : / @ + -, beginning with a letter or digit',
});

/** A line for people: any characters but control characters and lone surrogates. */
export const Title = Type.String({
  minLength: 1,
  maxLength: limits.max_name_chars,
  pattern: '^[^\\p{Cc}\\p{Cs}]+$',
});

export const Timestamp = Type.String({
  format: 'date-time',
  maxLength: 40,
  description: 'RFC 3339 with an offset, such as 2030-01-31T09:00:00Z',
});

export const Sha256 = Type.String({
  pattern: '^[0-9a-f]{64}$',
  description: 'The SHA-256 of the content: 64 hexadecimal digits in lower case',
});

export const Json = Type.Unknown({ description: 'Any JSON' });

export const PageQuery = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: limits.max_page, default: defaults.page, description: 'Rows a page at most' }),
  ),
  cursor: Type.Optional(
    Type.String({ minLength: 1, maxLength: 500, description: '`next_cursor` of the page before; opaque' }),
  ),
};

export const NextCursor = Type.Union([Type.String(), Type.Null()], {
  description:
    'Give it back as `cursor` for the next page; null on the last. A page may be short, even empty, and still have a next one: each page looks at a bounded number of rows.',
});

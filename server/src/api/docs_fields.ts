// The tables of the docs page: parameters, and the fields of a body or an answer with everything nested in them, one
// row each, named as one would write them (`backoff.base_ms`, `runs[].status`). Called by docs.ts.
import type { OpenApiDocument, ParameterObject, SchemaObject } from '@punctual/contract';
import { type Html, html, prose } from './html.ts';

type Schemas = OpenApiDocument['components']['schemas'];

interface Field {
  name: string;
  required: boolean;
  schema: SchemaObject;
}

/** Deeper fields are not written out; also the end of a schema that contains itself. */
const maxDepth = 6;

export function parameterTable(parameters: readonly ParameterObject[]): Html {
  return html`<div class="scroll"><table>
<thead><tr><th>Name</th><th>Where</th><th>Type</th><th>Limits</th><th>Meaning</th></tr></thead>
<tbody>${parameters.map(
    (parameter) => html`<tr><td data-label="Name"><code>${parameter.name}</code>${mark(parameter.required)}</td>
<td data-label="Where">${parameter.in}</td>${cells(parameter.schema, parameter.description)}</tr>`,
  )}</tbody></table></div>`;
}

export function countFields(schema: SchemaObject, schemas: Schemas): number {
  return fieldsOf(schema, schemas, '', 0).length;
}

/** Of a body it is worth saying what must be there; of an answer, what may be missing. */
export function fieldTable(schema: SchemaObject, schemas: Schemas, of: 'body' | 'answer'): Html {
  const fields = fieldsOf(schema, schemas, '', 0);
  if (fields.length === 0) return html`<p>${typeOf(schema)}</p>`;
  return html`<div class="scroll"><table>
<thead><tr><th>Field</th><th>Type</th><th>Limits</th><th>Meaning</th></tr></thead>
<tbody>${fields.map(
    (field) =>
      html`<tr><td data-label="Field">${fieldName(field.name)}${of === 'body' ? mark(field.required) : absence(field.required)}</td>${cells(field.schema)}</tr>`,
  )}</tbody></table></div>`;
}

/** Ids are UUIDs; their pattern says nothing more to a reader. */
export function isId(schema: SchemaObject): boolean {
  return schema.pattern?.startsWith('^[0-9a-f]{8}-') ?? false;
}

/** The schema a reference stands for, with the words of the place where it is used. */
export function resolve(schema: SchemaObject, schemas: Schemas): SchemaObject {
  if (schema.$ref === undefined) return schema;
  const { $ref, ...rest } = schema;
  const target = schemas[$ref.slice('#/components/schemas/'.length)];
  if (target === undefined) throw new Error(`${$ref} is not in the document`);
  return { ...target, ...rest };
}

/** Every field below a schema, in order; those of alternatives follow each other, each under the words of its kind. */
function fieldsOf(place: SchemaObject, schemas: Schemas, prefix: string, depth: number): Field[] {
  const schema = resolve(place, schemas);
  if (depth > maxDepth) return [];
  if (schema.anyOf !== undefined) return schema.anyOf.flatMap((choice) => fieldsOf(choice, schemas, prefix, depth + 1));
  if (schema.items !== undefined) return fieldsOf(schema.items, schemas, `${prefix}[]`, depth + 1);
  const lead = prefix === '' ? '' : `${prefix}.`;
  return Object.entries(schema.properties ?? {}).flatMap(([key, reference]) => {
    const name = `${lead}${key}`;
    const inner = resolve(reference, schemas);
    const required = schema.required?.includes(key) ?? false;
    return [{ name, required, schema: inner }, ...fieldsOf(inner, schemas, name, depth + 1)];
  });
}

function fieldName(name: string): Html {
  const cut = Math.max(name.lastIndexOf('.'), name.lastIndexOf(']')) + 1;
  return html`<code><span class="way">${name.slice(0, cut)}</span>${name.slice(cut)}</code>`;
}

function mark(required: boolean): Html | undefined {
  return required ? html` <span class="required">required</span>` : undefined;
}

function absence(always: boolean): Html | undefined {
  return always ? undefined : html` <span class="optional">optional</span>`;
}

function cells(schema: SchemaObject, description = schema.description): Html {
  return html`<td data-label="Type">${typeOf(schema)}</td>
<td data-label="Limits">${limitsOf(schema)}</td><td data-label="Meaning">${prose(description)}</td>`;
}

function typeOf(schema: SchemaObject): string {
  if (schema.$ref !== undefined) return schema.$ref.slice('#/components/schemas/'.length);
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(' or ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === 'array') return `list of ${schema.items === undefined ? 'anything' : typeOf(schema.items)}`;
  if (schema.patternProperties !== undefined) return 'object, by name';
  if (isId(schema)) return 'uuid';
  if (schema.format !== undefined) return [schema.format, ...alternatives(schema)].join(' or ');
  if (schema.type === undefined) return 'any JSON';
  return [schema.type].flat().join(' or ');
}

function alternatives(schema: SchemaObject): string[] {
  return Array.isArray(schema.type) ? schema.type.slice(1) : [];
}

function limitsOf(schema: SchemaObject): Html[] {
  const lines: Html[] = [];
  if (schema.enum !== undefined) lines.push(html`${schema.enum.map((value) => html`<code>${String(value)}</code> `)}`);
  const ranges = [
    range(schema.minimum, schema.maximum, ''),
    range(schema.minLength, schema.maxLength, ' characters'),
    range(schema.minItems, schema.maxItems, ' items'),
    range(undefined, schema.maxProperties, ' names'),
  ];
  for (const text of ranges) if (text !== undefined) lines.push(html`<div>${text}</div>`);
  if (schema.uniqueItems === true) lines.push(html`<div>no item twice</div>`);
  if (schema.pattern !== undefined && !isId(schema))
    lines.push(html`<div><code class="pattern">${schema.pattern}</code></div>`);
  if (schema.default !== undefined) lines.push(html`<div>default <code>${JSON.stringify(schema.default)}</code></div>`);
  return lines;
}

function range(low: number | undefined, high: number | undefined, unit: string): string | undefined {
  const [from, to] = [low, high].map((value) => value?.toLocaleString('en-US'));
  if (from !== undefined && to !== undefined) return `${from} to ${to}${unit}`;
  if (from !== undefined) return `at least ${from}${unit}`;
  return to === undefined ? undefined : `at most ${to}${unit}`;
}

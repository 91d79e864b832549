// The OpenAPI document under a real validator: its schemas are schemas, and its examples and defaults fit them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  buildOpenApi,
  components,
  errorTable,
  type MediaObject,
  type ResponseObject,
  routes,
  type SchemaObject,
} from '@punctual/contract';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';

const document = buildOpenApi({ routes, components, errorTable, version: '0.1.0' });

// The document is more than a schema, hence not strict; references inside it resolve against the document itself.
const ajv = new Ajv2020({ strict: false, allErrors: true });
formats.default(ajv);
ajv.addSchema(document, 'openapi');

function assertFits(value: unknown, way: string, what: string): void {
  const validate = ajv.compile({ $ref: `openapi#${way}` });
  assert.ok(validate(value), `${what}: ${ajv.errorsText(validate.errors)}`);
}

function pointer(...keys: string[]): string {
  return keys.map((key) => `/${encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))}`).join('');
}

function* bodies(): Generator<{ way: string; media: MediaObject }> {
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      const way = pointer('paths', path, method);
      const body = operation.requestBody?.content['application/json'];
      if (body !== undefined)
        yield { way: `${way}${pointer('requestBody', 'content', 'application/json', 'schema')}`, media: body };
      for (const [status, answer] of Object.entries(operation.responses)) {
        if ('content' in answer) yield* answers(`${way}${pointer('responses', status)}`, answer);
      }
    }
  }
  for (const [name, answer] of Object.entries(document.components.responses)) {
    yield* answers(pointer('components', 'responses', name), answer);
  }
}

function* answers(way: string, answer: ResponseObject): Generator<{ way: string; media: MediaObject }> {
  for (const [type, media] of Object.entries(answer.content))
    yield { way: `${way}${pointer('content', type, 'schema')}`, media };
}

test('every example of a body fits its schema', () => {
  let requests = 0;
  let problems = 0;
  for (const { way, media } of bodies()) {
    if (media.example !== undefined) {
      assertFits(media.example, way, way);
      requests += 1;
    }
    for (const [code, { value }] of Object.entries(media.examples ?? {})) {
      assertFits(value, way, `${code} at ${way}`);
      problems += 1;
    }
  }
  assert.ok(requests >= 3 && problems > 50, `only ${requests} request examples and ${problems} problems were seen`);
});

test('each job of the bulk example is a job that could be created', () => {
  for (const job of routes.createJobs.example.jobs)
    assertFits(job, '/components/schemas/CreateJob', JSON.stringify(job));
});

test('a wrong body does not fit', () => {
  const validate = ajv.compile({ $ref: 'openapi#/components/schemas/CreateJob' });
  assert.equal(validate({ type: 'echo', payolad: 1 }), false);
  assert.equal(validate({ executor: { kind: 'http', url: 'ftp://example.org' } }), false);
});

test('every schema of the document is a valid JSON Schema 2020-12', () => {
  const schemas: [string, unknown][] = Object.entries(document.components.schemas);
  for (const { way, media } of bodies()) schemas.push([way, media.schema]);
  for (const [way, schema] of schemas)
    assert.ok(ajv.validateSchema(schema as SchemaObject), `${way}: ${ajv.errorsText(ajv.errors)}`);
});

test('every default fits the schema it stands in', () => {
  let seen = 0;
  const visit = (schema: SchemaObject, way: string): void => {
    if ('default' in schema) {
      assertFits(schema.default, way, way);
      seen += 1;
    }
    for (const [name, inner] of Object.entries(schema.properties ?? {}))
      visit(inner, `${way}${pointer('properties', name)}`);
  };
  for (const [name, schema] of Object.entries(document.components.schemas))
    visit(schema, pointer('components', 'schemas', name));
  assert.ok(seen > 10, `only ${seen} defaults were seen`);
});

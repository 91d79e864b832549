// The OpenAPI document, checked by hand: whole, resolvable, and saying what the tables say.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  buildOpenApi,
  components,
  errorTable,
  limits,
  type OperationObject,
  type Route,
  routes,
  type SchemaObject,
} from './index.ts';
import { Type } from './type.ts';

const document = buildOpenApi({ routes, components, errorTable, version: '1.2.3' });

function operations(): { path: string; method: string; operation: OperationObject }[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  );
}

function operationCalled(name: string): OperationObject {
  const found = operations().find(({ operation }) => operation.operationId === name);
  assert.ok(found, `${name} is not in the document`);
  return found.operation;
}

/** Every object of the document with the way to it, so that a failure says where. */
function* objects(value: unknown, way = '#'): Generator<{ way: string; object: Record<string, unknown> }> {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) yield { way, object: value as Record<string, unknown> };
  for (const [key, inner] of Object.entries(value))
    yield* objects(inner, `${way}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`);
}

function resolve(reference: string): unknown {
  const keys = reference.slice(2).split('/');
  return keys.reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], document);
}

test('every route is an operation at its path and method, each with an operationId of its own', () => {
  const expected = Object.values(routes as Record<string, Route>).map(
    (route) => `${route.method} ${route.path} ${route.operation}`,
  );
  const actual = operations().map(
    ({ path, method, operation }) => `${method.toUpperCase()} ${path} ${operation.operationId}`,
  );
  assert.deepEqual(actual.sort(), expected.sort());
  assert.equal(new Set(operations().map(({ operation }) => operation.operationId)).size, actual.length);
});

test('each $ref resolves', () => {
  const references = [...objects(document)].filter(({ object }) => typeof object.$ref === 'string');
  assert.ok(references.length > 20);
  for (const { way, object } of references)
    assert.notEqual(resolve(object.$ref as string), undefined, `${way} → ${String(object.$ref)}`);
});

test('each component is written out once and referred to everywhere else', () => {
  for (const [name, schema] of Object.entries(components)) {
    const { description } = schema as SchemaObject;
    if (description === undefined) continue;
    const copies = [...objects(document)].filter(
      ({ object }) => object.description === description && object.$ref === undefined,
    );
    assert.deepEqual(
      copies.map(({ way }) => way),
      [`#/components/schemas/${name}`],
    );
  }
  assert.deepEqual(document.components.schemas.CreateJob?.properties?.executor, {
    $ref: '#/components/schemas/Executor',
  });
  assert.deepEqual(document.components.schemas.SyncRequest?.properties?.worker, {
    $ref: '#/components/schemas/WorkerDescription',
  });
});

test('a component used under another description keeps both the reference and the description', () => {
  const Thing = Type.Object({ a: Type.String() }, { description: 'A thing' });
  const route: Route = {
    ...routes.getHealth,
    response: Type.Object({ thing: { ...Thing, description: 'The other thing' } }),
  };
  const made = buildOpenApi({
    routes: { route },
    components: { Problem: components.Problem, Thing },
    errorTable,
    version: '1',
  });
  const answer = made.paths['/healthz']?.get?.responses['200'];
  assert.ok(answer !== undefined && 'content' in answer);
  assert.deepEqual(answer.content['application/json']?.schema.properties?.thing, {
    $ref: '#/components/schemas/Thing',
    description: 'The other thing',
  });
});

test('a choice is a component of that name, or something or null', () => {
  const choices = [...objects(document)].filter(({ object }) => Array.isArray(object.anyOf));
  for (const { way, object } of choices) {
    const [, second, ...more] = object.anyOf as SchemaObject[];
    const orNull = second?.type === 'null' && more.length === 0;
    assert.ok(
      orNull || /^#\/components\/schemas\/(Executor|CronExpressions|Need)$/.test(way),
      `${way} is an unnamed choice`,
    );
  }
  assert.ok(choices.length > 0);
});

test('limits and defaults stand in the document', () => {
  const priority = document.components.schemas.CreateJob?.properties?.priority;
  assert.deepEqual(priority, {
    type: 'integer',
    minimum: 0,
    maximum: limits.max_priority,
    default: 5,
    description: '9 starts before 0',
  });
  const limit = operationCalled('listRuns').parameters?.find(({ name }) => name === 'limit');
  assert.deepEqual(limit, {
    name: 'limit',
    in: 'query',
    required: false,
    description: 'Rows a page at most',
    schema: { type: 'integer', minimum: 1, maximum: limits.max_page, default: 50 },
  });
  assert.deepEqual(document.components.schemas.Run?.properties?.user_id?.type, ['string', 'null']);
});

test('the parameters in braces are exactly the path parameters, and these are required', () => {
  for (const { path, operation } of operations()) {
    const inPath = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path');
    assert.deepEqual(
      inPath.map(({ name }) => name),
      [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]),
    );
    for (const parameter of inPath) assert.equal(parameter.required, true);
  }
});

test('each error code of a route is an example of the answer with its status', () => {
  for (const route of Object.values(routes as Record<string, Route>)) {
    for (const code of route.errors) {
      const answer = operationCalled(route.operation).responses[errorTable[code].status];
      assert.ok(answer !== undefined && 'content' in answer, `${route.operation} lacks ${code}`);
      assert.ok(answer.description.includes(`\`${code}\`: ${errorTable[code].meaning}`));
      const value = answer.content['application/problem+json']?.examples?.[code]?.value;
      assert.deepEqual((value as { code: string }).code, code);
    }
  }
});

test('answers name the headers a client acts on', () => {
  const headersOf = (name: string, status: string) => {
    const answer = operationCalled(name).responses[status];
    return answer !== undefined && 'content' in answer ? Object.keys(answer.headers ?? {}) : [];
  };
  assert.deepEqual(headersOf('createJob', '201'), ['Idempotency-Replayed']);
  assert.deepEqual(headersOf('createJob', '429'), ['Retry-After']);
  assert.deepEqual(headersOf('createJob', '400'), []);
  assert.deepEqual(headersOf('getJob', '200'), ['ETag']);
  assert.deepEqual(headersOf('updateJob', '200'), ['ETag']);
  assert.deepEqual(headersOf('listJobs', '200'), []);
  assert.deepEqual(Object.keys(document.components.responses.Unexpected?.headers ?? {}), ['Retry-After']);
});

test('the document has every member OpenAPI 3.1 requires', () => {
  assert.equal(document.openapi, '3.1.0');
  assert.equal(document.info.version, '1.2.3');
  assert.ok(document.info.title);
  const tags = new Set(document.tags.map(({ name }) => name));
  assert.equal(tags.size, document.tags.length);
  for (const { path, operation } of operations()) {
    assert.match(path, /^\//);
    assert.ok(operation.summary);
    assert.ok(operation.tags.every((tag) => tags.has(tag)));
    for (const parameter of operation.parameters ?? []) assert.ok(parameter.name && parameter.in && parameter.schema);
    for (const [status, answer] of Object.entries(operation.responses)) {
      assert.match(status, /^([2-5]\d\d|default)$/);
      assert.ok('$ref' in answer || answer.description !== '');
    }
  }
  for (const name of Object.keys(document.components.schemas)) assert.match(name, /^[\w.-]+$/);
});

test('the server is where the reader was told, else the place that served the document', () => {
  assert.deepEqual(document.servers, [{ url: '/' }]);
  const told = buildOpenApi({ routes, components, errorTable, version: '1', serverUrl: 'https://jobs.example.org' });
  assert.deepEqual(told.servers, [{ url: 'https://jobs.example.org' }]);
});

test('a route with an error code that is not in the table is refused', () => {
  const route = { ...routes.getHealth, errors: ['no_such_code'] } as unknown as Route;
  assert.throws(() => buildOpenApi({ routes: { route }, components, errorTable, version: '1' }), /no_such_code/);
});

// The OpenAPI 3.1 document, made from the tables of routes, components and errors. The server answers it at
// /openapi.json and renders /docs from it. A pure function; the tables are passed in because index.ts, which gathers
// them, also exports this file. A schema that is a registered component becomes a $ref wherever it occurs.
import type { TSchema } from 'typebox';
import { type Access, rolesThatMay } from './access.ts';
import type { Route } from './route.ts';

export interface SchemaObject {
  $ref?: string;
  type?: string | string[];
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  format?: string;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  maxProperties?: number;
  properties?: Record<string, SchemaObject>;
  patternProperties?: Record<string, SchemaObject>;
  additionalProperties?: boolean | SchemaObject;
  required?: string[];
  items?: SchemaObject;
  anyOf?: SchemaObject[];
}

export interface HeaderObject {
  description: string;
  schema: SchemaObject;
}

export interface ParameterObject {
  name: string;
  in: 'path' | 'query' | 'header';
  required: boolean;
  description?: string;
  schema: SchemaObject;
}

export interface MediaObject {
  schema: SchemaObject;
  example?: unknown;
  examples?: Record<string, { summary: string; value: unknown }>;
}

export interface ResponseObject {
  description: string;
  headers?: Record<string, HeaderObject>;
  content: Record<string, MediaObject>;
}

export interface OperationObject {
  operationId: string;
  tags: string[];
  summary: string;
  description?: string;
  parameters?: ParameterObject[];
  requestBody?: { required: boolean; content: Record<string, MediaObject> };
  responses: Record<string, ResponseObject | { $ref: string }>;
  /** Empty: no key is needed. */
  security: Record<string, string[]>[];
  /** The roles of keys that may call it. */
  'x-roles'?: readonly string[];
  /** own: a key with a user meets only that user's rows; shared: the same for everybody; all: not for keys with a user. */
  'x-rows'?: string;
}

export type PathItem = Partial<Record<'get' | 'post' | 'put' | 'delete', OperationObject>>;

export type ErrorTable = Readonly<Record<string, { readonly status: number; readonly meaning: string }>>;

export interface OpenApiDocument {
  openapi: '3.1.0';
  info: {
    title: string;
    summary: string;
    description: string;
    version: string;
    license: { name: string; identifier: string };
  };
  servers: { url: string }[];
  tags: { name: string; description?: string }[];
  paths: Record<string, PathItem>;
  components: {
    schemas: Record<string, SchemaObject>;
    responses: Record<string, ResponseObject>;
    securitySchemes: typeof securitySchemes;
  };
  /** Every error code there is, by code; `responses` repeat those an operation is known for. */
  'x-errors': ErrorTable;
}

export interface OpenApiOptions {
  routes: Readonly<Record<string, Route>>;
  components: Readonly<Record<string, TSchema>>;
  errorTable: ErrorTable;
  version: string;
  /** Where the API is served, as shown to its readers; `/` when not given. */
  serverUrl?: string | undefined;
}

/** A file as it is. */
const bytes: Record<string, MediaObject> = {
  'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
};

const problemJson = 'application/problem+json';

/** How a request says who it is, when the server asks for keys. */
const securitySchemes = {
  key: { type: 'http', scheme: 'bearer', description: 'An API key: `Authorization: Bearer pk_…`' },
  session: { type: 'apiKey', in: 'cookie', name: 'punctual_session', description: 'A session of the dashboard' },
} as const;

/** What a caller without the right key is answered. */
const accessErrors = ['key_missing', 'key_invalid', 'role_missing', 'wrong_user', 'rate_limited'];

/** Errors any operation may answer; they stand once, in components.responses. */
const commonErrors = ['internal', 'overloaded', 'unavailable'];

const tagDescriptions: Readonly<Record<string, string>> = {
  workflows: 'Steps with an order among them, each a job.',
  jobs: 'What to do and how, whose, and when.',
  runs: 'One promise to do a job once: its state, attempts, logs and outcome.',
  logs: 'What runs wrote, searched over all of them.',
  flow: 'What may start: queues, gates, limits.',
  operations: 'One action done to all jobs or runs that fit a filter, and the record of it.',
  artifacts: 'Files by their content: programs that jobs run, and what runs published.',
  workers: 'The processes that do the work, and the one call they speak.',
  keys: 'API keys and their roles, sessions of the dashboard, and who changed what.',
  service: 'The server itself: is it alive, can it take work.',
};

export function buildOpenApi(options: OpenApiOptions): OpenApiDocument {
  const { components, errorTable } = options;
  const schemas = Object.entries(components).map(([name, schema]) => [name, members(schema, components)] as const);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Punctual',
      summary: 'A distributed job scheduler on PostgreSQL',
      description:
        'JSON in snake_case; times are RFC 3339; errors are application/problem+json with a stable `code`; unknown fields are refused.',
      version: options.version,
      license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: options.serverUrl ?? '/' }],
    tags: tagsOf(options.routes),
    paths: pathsOf(options),
    components: {
      schemas: Object.fromEntries(schemas),
      responses: { Unexpected: unexpected(errorTable) },
      securitySchemes,
    },
    'x-errors': errorTable,
  };
}

function tagsOf(routes: OpenApiOptions['routes']): OpenApiDocument['tags'] {
  const names = new Set(Object.values(routes).map((route) => route.tag));
  return [...names].map((name) => {
    const description = tagDescriptions[name];
    return description === undefined ? { name } : { name, description };
  });
}

function pathsOf(options: OpenApiOptions): Record<string, PathItem> {
  const paths: Record<string, PathItem> = {};
  for (const route of Object.values(options.routes)) {
    const item = paths[route.path] ?? {};
    paths[route.path] = item;
    item[route.method.toLowerCase() as keyof PathItem] = operationOf(route, options);
  }
  return paths;
}

function operationOf(route: Route, { components, errorTable }: OpenApiOptions): OperationObject {
  const parameters = [
    ...parametersOf('path', route.params, components),
    ...parametersOf('query', route.query, components),
    ...parametersOf('header', route.headers, components),
  ];
  const operation: OperationObject = {
    operationId: route.operation,
    tags: [route.tag],
    summary: route.summary,
    responses: {},
    ...accessOf(route.access),
  };
  if (route.description !== undefined) operation.description = route.description;
  if (parameters.length > 0) operation.parameters = parameters;
  if (route.body !== undefined) {
    const media: MediaObject = { schema: toOpenApi(route.body, components) };
    if (route.example !== undefined) media.example = route.example;
    operation.requestBody = { required: route.bodyOptional !== true, content: { 'application/json': media } };
  }
  if (route.bytes === 'body') operation.requestBody = { required: true, content: bytes };
  operation.responses = {
    [route.success]: answerOf(route, components),
    ...errorAnswers([...route.errors, ...(route.access === 'open' ? [] : accessErrors)], errorTable),
    default: { $ref: '#/components/responses/Unexpected' },
  };
  return operation;
}

function accessOf(access: Access): Pick<OperationObject, 'security' | 'x-roles' | 'x-rows'> {
  if (access === 'open') return { security: [] };
  return { security: [{ key: [] }, { session: [] }], 'x-roles': rolesThatMay(access), 'x-rows': access.rows };
}

function parametersOf(
  where: ParameterObject['in'],
  schema: TSchema | undefined,
  components: OpenApiOptions['components'],
): ParameterObject[] {
  const { properties = {}, required = [] } = (schema ?? {}) as SchemaObject;
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...rest } = toOpenApi(property, components);
    return {
      name: where === 'header' ? headerCase(name) : name,
      in: where,
      required: where === 'path' || required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema: rest,
    };
  });
}

function headerCase(name: string): string {
  return name.replace(/(^|-)[a-z]/g, (letters) => letters.toUpperCase());
}

function answerOf(route: Route, components: OpenApiOptions['components']): ResponseObject {
  const schema = toOpenApi(route.response, components);
  const headers: Record<string, HeaderObject> = {};
  if (schema.$ref?.endsWith('/Job')) {
    headers.ETag = { description: 'The version of the job; give it back as If-Match', schema: { type: 'string' } };
  }
  const { properties: requestHeaders = {} } = (route.headers ?? {}) as SchemaObject;
  if ('idempotency-key' in requestHeaders) {
    headers['Idempotency-Replayed'] = {
      description: '`true` when this key was answered before and the answer is repeated; nothing was created again',
      schema: { type: 'string', enum: ['true'] },
    };
  }
  return {
    description: answerWords[route.success] ?? 'Done',
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    content: route.bytes === 'answer' ? bytes : { 'application/json': { schema } },
  };
}

const answerWords: Readonly<Record<number, string>> = {
  200: 'Done',
  201: 'Created, and committed',
  202: 'Accepted, and committed',
};

function errorAnswers(codes: readonly string[], errorTable: ErrorTable): Record<string, ResponseObject> {
  const byStatus = new Map<number, string[]>();
  for (const code of codes) {
    const status = statusOf(code, errorTable);
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return Object.fromEntries([...byStatus].map(([status, group]) => [String(status), problemAnswer(group, errorTable)]));
}

function unexpected(errorTable: ErrorTable): ResponseObject {
  return problemAnswer(commonErrors, errorTable);
}

function problemAnswer(codes: readonly string[], errorTable: ErrorTable): ResponseObject {
  const entries = codes.map((code) => ({
    code,
    status: statusOf(code, errorTable),
    meaning: errorTable[code]?.meaning ?? '',
  }));
  const retries = entries.some(({ status }) => status === 429 || status === 503);
  return {
    description: entries.map(({ code, meaning }) => `\`${code}\`: ${meaning}`).join('\n\n'),
    ...(retries
      ? {
          headers: {
            'Retry-After': { description: 'Seconds to wait before trying again', schema: { type: 'integer' } },
          },
        }
      : {}),
    content: {
      [problemJson]: {
        schema: { $ref: '#/components/schemas/Problem' },
        examples: Object.fromEntries(
          entries.map(({ code, status, meaning }) => [
            code,
            { summary: meaning, value: { type: `https://punctual.dev/errors#${code}`, title: meaning, status, code } },
          ]),
        ),
      },
    },
  };
}

function statusOf(code: string, errorTable: ErrorTable): number {
  const entry = errorTable[code];
  if (entry === undefined) throw new Error(`the error code ${code} is not in the table of errors`);
  return entry.status;
}

/** A schema as it stands in the document: a $ref if it is a component, else written out. */
function toOpenApi(schema: TSchema | SchemaObject, components: OpenApiOptions['components']): SchemaObject {
  for (const [name, component] of Object.entries(components)) {
    if (!isSame(schema, component)) continue;
    const { description } = schema as SchemaObject;
    const own = description !== undefined && description !== (component as SchemaObject).description;
    return { $ref: `#/components/schemas/${name}`, ...(own ? { description } : {}) };
  }
  return members(schema, components);
}

/** Type.Optional and `described` copy a schema's members into a new object: same members, same schema. */
function isSame(schema: object, component: object): boolean {
  if (schema === component) return true;
  const mine = Object.entries(schema).filter(([key]) => key !== 'description');
  const theirs = Object.entries(component).filter(([key]) => key !== 'description');
  return (
    mine.length === theirs.length && theirs.every(([key, value]) => (schema as Record<string, unknown>)[key] === value)
  );
}

function members(schema: TSchema | SchemaObject, components: OpenApiOptions['components']): SchemaObject {
  const { properties, patternProperties, additionalProperties, items, anyOf, ...rest } = schema as SchemaObject;
  const convert = (inner: SchemaObject) => toOpenApi(inner, components);
  const each = (inner: Record<string, SchemaObject>) =>
    Object.fromEntries(Object.entries(inner).map(([key, value]) => [key, convert(value)]));
  const result: SchemaObject = { ...rest };
  // TypeBox writes enums without a type; readers and generators want one.
  if (result.type === undefined && result.enum?.every((value) => typeof value === 'string')) result.type = 'string';
  if (properties !== undefined) result.properties = each(properties);
  if (patternProperties !== undefined) result.patternProperties = each(patternProperties);
  if (additionalProperties !== undefined) {
    result.additionalProperties =
      typeof additionalProperties === 'boolean' ? additionalProperties : convert(additionalProperties);
  }
  if (items !== undefined) result.items = convert(items);
  if (anyOf !== undefined) return withChoices(result, anyOf.map(convert));
  return result;
}

/** `X or null` of a plain type reads best as `type: [X, null]`. */
function withChoices(rest: SchemaObject, choices: SchemaObject[]): SchemaObject {
  const [first, second] = choices;
  if (
    choices.length === 2 &&
    second?.type === 'null' &&
    typeof first?.type === 'string' &&
    first.enum === undefined &&
    first.const === undefined
  ) {
    return { ...first, ...rest, type: [first.type, 'null'] };
  }
  return { ...rest, anyOf: choices };
}

// A curl command for each operation, ready to paste: ids that only the reader knows are shell variables. Called by docs.ts.
import type { OpenApiDocument, OperationObject, SchemaObject } from '@punctual/contract';
import { isId, resolve } from './docs_fields.ts';

type Schemas = OpenApiDocument['components']['schemas'];

export interface Call {
  server: string;
  method: string;
  path: string;
  operation: OperationObject;
}

export function curlFor({ server, method, path, operation }: Call, schemas: Schemas): string {
  const url = `${server}${fill(path, operation)}${paging(operation)}`;
  const lines = [`curl${method === 'get' ? '' : ` -X ${method.toUpperCase()}`} "${url}"`];
  const media = operation.requestBody?.content['application/json'];
  if (media !== undefined) {
    const body = media.example ?? sample(media.schema, schemas);
    lines.push("-H 'Content-Type: application/json'", `-d '${JSON.stringify(body).replaceAll("'", `'\\''`)}'`);
  }
  return lines.join(' \\\n  ');
}

/** Ids are the reader's to know (`$JOB_ID`); names can be anything. */
function fill(path: string, operation: OperationObject): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const parameter = operation.parameters?.find((each) => each.in === 'path' && each.name === name);
    return parameter !== undefined && isId(parameter.schema) ? `$${name.toUpperCase()}` : 'w001';
  });
}

function paging(operation: OperationObject): string {
  return operation.parameters?.some((each) => each.in === 'query' && each.name === 'limit') ? '?limit=10' : '';
}

/** The smallest value that fits: only what is required, each the plainest of its type. */
export function sample(reference: SchemaObject, schemas: Schemas): unknown {
  const schema = resolve(reference, schemas);
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if (schema.enum !== undefined) return schema.enum[0];
  if (schema.anyOf?.[0] !== undefined) return sample(schema.anyOf[0], schemas);
  const [type = 'any'] = [schema.type].flat();
  switch (type) {
    case 'object': {
      const required = schema.required ?? [];
      return Object.fromEntries(required.map((key) => [key, sample(schema.properties?.[key] ?? {}, schemas)]));
    }
    case 'array':
      return (schema.minItems ?? 0) > 0 ? [sample(schema.items ?? {}, schemas)] : [];
    case 'integer':
    case 'number':
      return schema.minimum ?? 0;
    case 'boolean':
      return false;
    case 'string':
      return isId(schema)
        ? '01980000-0000-7000-8000-000000000000'
        : schema.format === 'date-time'
          ? '2030-01-31T09:00:00Z'
          : 'text';
    default:
      return null;
  }
}

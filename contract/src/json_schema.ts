// Checks values against a JSON Schema that a user wrote, with errors as the server words them. Apart from index.ts because the
// library behind it is large: the SDK loads it when the first job with such a schema is used.
import { Compile, type XStatic } from 'typebox/schema';
import type { FieldError } from './problem.ts';

/** The type that a JSON Schema describes, as far as it can be read from one that is written out. */
export type JsonSchemaType<Schema> = XStatic<Schema>;

/** More are of no use to anybody. */
const max_errors = 20;

interface SchemaError {
  keyword: string;
  instancePath: string;
  message: string;
  params: unknown;
}

/** A checker for one schema; an empty answer means that the value fits. */
export function jsonSchemaChecker(schema: object | boolean): (value: unknown) => FieldError[] {
  const validator = Compile(schema);
  return (value) => {
    if (validator.Check(value)) return [];
    const [, errors] = validator.Errors(value);
    const found = errors.flatMap(explain).slice(0, max_errors);
    return found.length > 0 ? found : [{ path: '', message: 'does not fit the schema' }];
  };
}

function explain({ keyword, instancePath, message, params }: SchemaError): FieldError[] {
  const at = pathOf(instancePath);
  const inside = (names: unknown, words: string): FieldError[] =>
    (names as string[]).map((name) => ({ path: at === '' ? name : `${at}.${name}`, message: words }));
  if (keyword === 'required')
    return inside((params as { requiredProperties: string[] }).requiredProperties, 'is missing');
  if (keyword === 'additionalProperties')
    return inside((params as { additionalProperties: string[] }).additionalProperties, 'is not known');
  // Says of a field that is not known once more that it must not be there.
  if (keyword === 'boolean') return [];
  return [{ path: at, message }];
}

/** `/to/0/name` as `to[0].name`. */
function pathOf(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((path, part) => (/^\d+$/.test(part) ? `${path}[${part}]` : path === '' ? part : `${path}.${part}`), '');
}

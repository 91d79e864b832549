// Flags made from the contract's schemas, so that names, choices, limits and words cannot drift from the API. The
// commands pick the properties; a flag's value becomes the property's value of the request, unchanged.
import { InvalidArgumentError, Option } from 'commander';
import { now, parseDuration, parsePastTime, parseTime, TimeError, writeDuration } from './time.ts';

/** The part of JSON Schema that flags are made from. */
export interface Schema {
  type?: string;
  enum?: readonly string[];
  format?: string;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
  default?: unknown;
  description?: string;
  items?: Schema;
  anyOf?: readonly Schema[];
}

export interface Flag {
  property: string;
  option: Option;
}

/** Stands for null, which commander would take for no value. */
const none = Symbol('none');

/** Where the name of a property is not a good word for a flag. */
const otherNames: Record<string, string> = {
  ...{ schedule_time: 'at', delay_ms: 'in', tags: 'tag', q: 'search', channels: 'channel', kinds: 'event' },
  ...{ cron_expression: 'cron', timezone: 'tz', interval_ms: 'every', start_at: 'start', end_at: 'end' },
};

/** Where the last word of a flag does not say what its value is. */
const valueNames: Record<string, string> = {
  ...{ q: 'text', note: 'text', cron_expression: 'expression', timezone: 'zone', calendar: 'name' },
  ...{ dst_gap: 'choice', dst_overlap: 'choice', on_excluded: 'choice', catch_up: 'choice', overlap: 'choice' },
  on_conflict: 'choice',
};

/** `timeout_ms` is `--timeout 30s`, `user_id` is `--user`. */
export function flagName(property: string): string {
  return otherNames[property] ?? property.replace(/_(ms|id)$/, '').replaceAll('_', '-');
}

export interface FlagOptions {
  /** For the names of flags: `backoff` makes `--backoff-factor`. */
  prefix?: string;
  /** Descriptions that fit better than the schema's. */
  words?: Record<string, string>;
  /** false: the command does not follow the schema's defaults, so they are not told. */
  defaults?: boolean;
  /** Times that may also be written as a duration back from now, beside those that begin with `created_`. */
  past?: readonly string[];
}

export function flagsFrom(properties: object, pick: readonly string[], options: FlagOptions = {}): Flag[] {
  return pick.map((property) => {
    const declared = (properties as Record<string, Schema>)[property];
    if (declared === undefined) throw new Error(`the contract has no property ${property}`);
    const { schema, nullable } = withoutNull(declared);
    const name = [...(options.prefix === undefined ? [] : [options.prefix]), flagName(property)].join('-');
    const words = options.words?.[property] ?? schema.description ?? '';
    if (schema.type === 'boolean') return { property, option: new Option(`--${name}`, words) };
    const told = options.defaults === false ? { ...schema, default: undefined } : schema;
    const option = new Option(`--${name} <${argumentName(property, schema)}>`, describe(words, property, told));
    if (schema.enum !== undefined) option.argChoices = [...schema.enum];
    const isPast = property.startsWith('created_') || options.past?.includes(property) === true;
    option.argParser((text: string, before: unknown) =>
      nullable && text === 'none' ? none : parseFlag(text, { property, schema, isPast }, before),
    );
    return { property, option };
  });
}

/** What may be null is written `none`; what may be one or a list is a list. */
function withoutNull({ anyOf, ...declared }: Schema): { schema: Schema; nullable: boolean } {
  const schema = anyOf?.find(({ type }) => type === 'array') ?? anyOf?.find(({ type }) => type !== 'null');
  return { schema: { ...declared, ...schema }, nullable: anyOf?.some(({ type }) => type === 'null') === true };
}

/** The properties that were given, by the names of the contract. */
export function valuesOf(flags: readonly Flag[], given: Record<string, unknown>): Record<string, unknown> {
  const entries = flags.map(({ property, option }) => [property, given[option.attributeName()]] as const);
  const were = entries.filter(([, value]) => value !== undefined);
  return Object.fromEntries(were.map(([property, value]) => [property, value === none ? null : value]));
}

function argumentName(property: string, schema: Schema): string {
  if (property.endsWith('_ms')) return 'duration';
  if (schema.format === 'date-time') return 'time';
  if (schema.type === 'integer' || schema.type === 'number') return 'number';
  return valueNames[property] ?? flagName(property).split('-').at(-1) ?? 'value';
}

function describe(words: string, property: string, schema: Schema): string {
  const show = (value: unknown) => (property.endsWith('_ms') ? writeDuration(Number(value)) : String(value));
  const facts: string[] = [];
  if (schema.minimum !== undefined && schema.maximum !== undefined) {
    const max = show(schema.maximum);
    facts.push(property.endsWith('_ms') ? `at most ${max}` : `${schema.minimum}–${max}`);
  }
  if (schema.type === 'array') facts.push('may be repeated');
  if (schema.default !== undefined)
    facts.push(`${schema.type === 'string' ? JSON.stringify(schema.default) : show(schema.default)} unless given`);
  return facts.length === 0 ? words : `${words}${words === '' ? '' : ' '}(${facts.join('; ')})`;
}

interface FlagKind {
  property: string;
  schema: Schema;
  isPast: boolean;
}

function parseFlag(text: string, { property, schema, isPast }: FlagKind, before: unknown): unknown {
  if (schema.type === 'array') return [...((before as unknown[] | undefined) ?? []), text];
  if (schema.enum !== undefined) return parseChoice(text, schema.enum);
  if (schema.format === 'date-time') return inWords(() => (isPast ? parsePastTime(text, now()) : parseTime(text)));
  if (property.endsWith('_ms'))
    return checkRange(
      inWords(() => parseDuration(text)),
      schema,
      writeDuration,
    );
  if (schema.type === 'integer' || schema.type === 'number') return parseNumber(text, schema);
  return text;
}

function parseNumber(text: string, schema: Schema): number {
  const value = Number(text);
  const wrong =
    text.trim() === '' || !Number.isFinite(value) || (schema.type === 'integer' && !Number.isInteger(value));
  if (wrong) throw new InvalidArgumentError(`It must be a ${schema.type === 'integer' ? 'whole ' : ''}number.`);
  return checkRange(value, schema, String);
}

function checkRange(
  value: number,
  { minimum = 0, maximum = Number.MAX_SAFE_INTEGER }: Schema,
  show: (n: number) => string,
): number {
  if (value >= minimum && value <= maximum) return value;
  throw new InvalidArgumentError(`It must be from ${show(minimum)} to ${show(maximum)}.`);
}

function parseChoice(text: string, choices: readonly string[]): string {
  const choice = choices.find((one) => one.toLowerCase() === text.toLowerCase());
  if (choice === undefined) throw new InvalidArgumentError(`It must be one of ${choices.join(', ')}.`);
  return choice;
}

export function inWords<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof TimeError) throw new InvalidArgumentError(error.message);
    throw error;
  }
}

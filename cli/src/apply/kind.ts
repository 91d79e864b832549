// What a kind of object is to `punctual export` and `punctual apply`: how it looks in a file, what it means when something is
// left out, and the calls that list, put and remove it. The kinds themselves stand in flow_kinds.ts, alert_kinds.ts and
// job_kind.ts.
import type { closed, FieldError, Route } from '@punctual/contract';
import type { Client } from '@punctual/sdk';
import type { Fields } from './fields.ts';

/** The lists of a document, in the order in which they are applied: what is used before what uses it. */
export const sections = [
  'calendars',
  'queues',
  'gates',
  'breakers',
  'limits',
  'fair_queues',
  'retention',
  'channels',
  'alert_rules',
  'silences',
  'jobs',
] as const;
export type Section = (typeof sections)[number];

/** What the meaning of an object depends on beside itself. */
export interface Context {
  now_ms: number;
  /** The priority of jobs of a queue that say none. */
  defaultPriority: (queue: string) => number;
  /** Whose key asks: its jobs are that user's. */
  user: string | null;
}

/** An object of a file. */
export interface Given {
  /** What the file says, with values of the environment, and without what is kept. */
  value: Fields;
  /** The fields that are `!keep`. */
  keeps: readonly string[];
}

export interface Put {
  /** What the file says. */
  given: Given;
  /** Everything, with defaults. */
  after: Fields;
  before: Fields | null;
}

export interface Kind {
  section: Section;
  /** What one is called. */
  noun: string;
  /** The field that says which one. */
  id: string;
  schema: ReturnType<typeof closed>;
  /** Fields that may be `!keep` or `!env`; they are never printed. */
  secrets?: readonly string[];
  /** Why a field is not there that people would look for. */
  strangers?: Readonly<Record<string, string>>;
  /** What the schema cannot say. */
  check?: (given: Given, context: Context) => FieldError[];
  defaults: (value: Fields, context: Context) => Fields;
  /** One spelling for what means the same. */
  tidy?: (value: Fields) => Fields;
  /** Not to be there is as good as being there with all defaults; removing it is putting these. */
  neutral?: true;
  /** Nothing would come of it any more. */
  isOver?: (value: Fields, nowMs: number) => boolean;
  /** What is wanted of an object that is there: what the file leaves to the server is taken from it. */
  align?: (after: Fields, before: Fields, given: Given) => Fields;
  /** Why it cannot become so. */
  refuse?: (put: Put) => FieldError[];
}

/** A kind that is listed whole and put by its name; jobs are not. */
export interface SettingKind extends Kind {
  routes: { list: Route; put: Route; remove: Route };
  /** As a file would say it. */
  list: (client: Client) => Promise<Fields[]>;
  put: (client: Client, id: string, put: Put) => Promise<unknown>;
  /** What of the answer must be told, such as a secret that was made. */
  told?: (answer: unknown) => string | null;
  remove: (client: Client, id: string) => Promise<unknown>;
}

/** Times in one spelling. */
export function instant(value: unknown): unknown {
  const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(ms) ? value : new Date(ms).toISOString();
}

export function sorted(value: unknown): unknown {
  return Array.isArray(value) ? [...value].sort() : value;
}

/** Without what is null: for bodies in which a field is left out instead. */
export function withoutNulls(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null && value !== undefined));
}

export function without(fields: Fields, ...names: string[]): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !names.includes(name)));
}

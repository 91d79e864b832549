// From the text of files to the objects they hold, everything that is wrong named with its place: what is not YAML, what the
// contract's schemas refuse, what contradicts itself by the server's own rules, and what is there twice. Pure.
import type { FieldError } from '@punctual/contract';
import { checker } from '@punctual/server/internal/api/validation';
import { closest } from '@punctual/server/internal/rules/closest';
import {
  documentLimits,
  documentsOf,
  FromEnvironment,
  Keep,
  notJson,
  type Path,
  type Place,
  type Problem,
  pathText,
  type YamlDocument,
} from './document.ts';
import { type Fields, isFields } from './fields.ts';
import { madeKey } from './job_kind.ts';
import type { Context, Given, Kind } from './kind.ts';
import { sections } from './kind.ts';

/** An object of a file, found to be in order by itself. */
export interface Entry extends Given {
  kind: Kind;
  /** The value of its `id`. */
  id: string;
  place: Place;
  /** `jobs[3]` */
  path: string;
}

/** As many as one house is meant for. */
export const max_objects = 100_000;
const format = 1;

export interface CheckOptions {
  kinds: readonly Kind[];
  context: Context;
  environment: (name: string) => string | undefined;
}

export class Checker {
  readonly entries: Entry[] = [];
  readonly problems: Problem[] = [];
  readonly #options: CheckOptions;
  readonly #checks: ReadonlyMap<Kind, (value: unknown) => FieldError[]>;
  readonly #seen = new Map<string, Place>();

  constructor(options: CheckOptions) {
    this.#options = options;
    this.#checks = new Map(options.kinds.map((kind) => [kind, checker(kind.schema)]));
  }

  /** Reads a file; false when there is enough to mend already. */
  add(text: string, file: string): boolean {
    for (const document of documentsOf(text, file)) {
      if ('problems' in document) this.problems.push(...document.problems);
      else this.#addDocument(document);
      if (this.problems.length >= documentLimits.max_problems) return false;
    }
    return true;
  }

  #addDocument(document: YamlDocument): void {
    const { value, locate } = document;
    const wrong = (path: Path, message: string): void =>
      void this.problems.push({ ...locate(path), path: pathText(path), message });
    if (value === null || value === undefined) return;
    const bad = notJson(value);
    if (bad !== null) return wrong(bad, 'is not JSON: only finite numbers are');
    if (!isFields(value)) return wrong([], `must be a mapping of ${sections.join(', ')}`);
    for (const [section, list] of Object.entries(value)) {
      if (section === 'punctual') {
        if (list !== format) wrong([section], `is the version of the format, which must be ${format}`);
      } else if (!(sections as readonly string[]).includes(section)) {
        const near = closest(section, sections);
        wrong(
          [section],
          `is not known${near === null ? `; there are ${sections.join(', ')}` : `; did you mean ${near}?`}`,
        );
      } else if (Array.isArray(list))
        for (const [i, item] of list.entries()) this.#addItem(document, [section, i], item);
      else if (list !== null) wrong([section], 'must be a list: begin each object with a dash');
    }
  }

  #addItem({ locate }: YamlDocument, at: [string, number], item: unknown): void {
    const wrong = (path: Path, message: string): void =>
      void this.problems.push({ ...locate([...at, ...path]), path: pathText([...at, ...path]), message });
    if (this.problems.length >= documentLimits.max_problems) return;
    if (this.entries.length >= max_objects) return wrong([], `is one more than ${max_objects} objects: split them`);
    if (!isFields(item)) return wrong([], 'must be a mapping');
    const kind = this.#kindOf(at[0], item);
    if (typeof kind === 'string') return wrong([], kind);
    const given = takeMarkers(item, kind, this.#options.environment, wrong);
    const errors = this.#errorsOf(kind, given);
    for (const { path, message } of errors) wrong(stepsOf(path), message);
    if (errors.length > 0) return;
    const entry = { ...given, kind, id: String(given.value[kind.id]), place: locate(at), path: pathText(at) };
    const identity = identityOf(entry, this.#options.context.user);
    const earlier = this.#seen.get(identity);
    if (earlier !== undefined)
      return wrong([], `is the same ${kind.noun} as in ${earlier.file}:${earlier.line}: keep one of them`);
    this.#seen.set(identity, entry.place);
    this.entries.push(entry);
  }

  /** Of some lists each item says by a field what it is of. */
  #kindOf(section: string, item: Fields): Kind | string {
    const kinds = this.#options.kinds.filter((kind) => kind.section === section);
    const [only] = kinds;
    if (kinds.length === 1 && only !== undefined) return only;
    const fitting = kinds.filter(({ id }) => item[id] !== undefined);
    const [kind] = fitting;
    if (fitting.length === 1 && kind !== undefined) return kind;
    return `must say what it is of by one of ${kinds.map(({ id }) => id).join(', ')}`;
  }

  #errorsOf(kind: Kind, given: Given): FieldError[] {
    const errors = (this.#checks.get(kind)?.(given.value) ?? []).map(({ path, message }) => {
      const reason = kind.strangers?.[path];
      return { path, message: reason !== undefined && message.startsWith('is not a known field') ? reason : message };
    });
    return errors.length > 0 ? errors : (kind.check?.(given, this.#options.context) ?? []);
  }
}

/** What there may be one of. */
export function identityOf({ kind, id, value }: Pick<Entry, 'kind' | 'id' | 'value'>, user: string | null): string {
  if (kind.section !== 'jobs') return JSON.stringify([kind.section, kind.id, id]);
  if (value['job_id'] !== undefined) return JSON.stringify([kind.section, value['job_id']]);
  return JSON.stringify([kind.section, value['user_id'] ?? user, value['unique_key'] ?? madeKey(id)]);
}

type Wrong = (path: Path, message: string) => void;

/** Takes `!keep` and `!env` out, where they may stand. */
function takeMarkers(item: Fields, kind: Kind, environment: CheckOptions['environment'], wrong: Wrong): Given {
  const allowed = kind.secrets ?? [];
  const keeps: string[] = [];
  const taken = (value: unknown, path: Path): unknown => {
    const text = pathText(path);
    if (value instanceof Keep || value instanceof FromEnvironment) {
      if (!allowed.includes(text))
        wrong(
          path,
          `${allowed.length === 0 ? 'must be a value' : `may stand at ${allowed.join(', ')} only`}: !keep and !env are for secrets`,
        );
      if (value instanceof Keep) return void keeps.push(text);
      const found = environment(value.name);
      if (found === undefined) wrong(path, `needs the variable ${value.name}, which the environment does not have`);
      return found ?? '';
    }
    if (Array.isArray(value)) return value.map((one, i) => taken(one, [...path, i]));
    if (!isFields(value)) return value;
    const entries = Object.entries(value).map(([name, one]) => [name, taken(one, [...path, name])] as const);
    return Object.fromEntries(entries.filter(([, one]) => one !== undefined));
  };
  return { value: taken(item, []) as Fields, keeps };
}

/** `backoff.base_ms`, `tags[0]` as steps; a name with a dot in it ends at what stands around it. */
function stepsOf(path: string): Path {
  return [...path.matchAll(/\[(\d+)\]|([^.[\]]+)/g)].map(([, index, name]) =>
    index === undefined ? (name ?? '') : Number(index),
  );
}

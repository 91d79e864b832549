// YAML as `punctual apply` reads it, one document after another, so that a file of a hundred thousand jobs never stands in
// memory as a tree. Everything that is wrong is told with its line and column; nothing is coerced, guessed or run. Pure.
import {
  Alias,
  Composer,
  type CST,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  Parser,
  visit,
} from 'yaml';
import { step } from './fields.ts';

export const documentLimits = {
  /** A hundred thousand ordinary jobs take twenty million bytes. */
  max_file_bytes: 32 * 1024 * 1024,
  /** Of one list or mapping: that no name is there twice takes looking at all of them for each. */
  max_items: 10_000,
  /** A bomb of ten aliases of ten aliases has more. */
  max_aliases: 100,
  /** As deep as a payload may be, and what stands around it. */
  max_depth: 80,
  /** More are not worth reading before the first are mended. */
  max_problems: 50,
} as const;

export interface Place {
  file: string;
  line: number;
  column: number;
}

export interface Problem extends Place {
  /** Where within the document: `jobs[3].cron_expression`. */
  path: string;
  message: string;
}

export type Path = readonly (string | number)[];

/** `!keep`: what the server has stays. */
export class Keep {
  readonly tag = '!keep';
}

/** `!env NAME`: a value of the environment. */
export class FromEnvironment {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

export interface YamlDocument {
  value: unknown;
  /** Where a part of it stands, or the nearest part around it that is there. */
  locate(path: Path): Place;
}

const customTags = [
  {
    tag: '!keep',
    identify: (value: unknown) => value instanceof Keep,
    resolve: (text: string, onError: (message: string) => void) => {
      if (text !== '') onError('!keep stands alone: what the server has is kept');
      return new Keep();
    },
    stringify: () => '',
  },
  {
    tag: '!env',
    resolve: (text: string, onError: (message: string) => void) => {
      if (!/^[A-Za-z_]\w*$/.test(text))
        onError('!env needs the name of a variable of the environment: !env SMTP_PASSWORD');
      return new FromEnvironment(text);
    },
  },
];

/** The options that both reading and writing use. */
export const yamlOptions = { customTags, stringKeys: true, version: '1.2', prettyErrors: false } as const;

/** The documents of a text; the first that cannot be read ends it. */
export function* documentsOf(text: string, file: string): Generator<YamlDocument | { problems: Problem[] }> {
  const lines = new LineCounter();
  const placeAt = (offset: number): Place => {
    const { line, col } = lines.linePos(Math.max(0, offset));
    return { file, line: Math.max(1, line), column: Math.max(1, col) };
  };
  const wrong = (offset: number, message: string) => ({ problems: [{ ...placeAt(offset), path: '', message }] });
  let offset = 0;
  try {
    const composer = new Composer(yamlOptions);
    const tokens = bounded(new Parser(lines.addNewLine).parse(text), (at) => (offset = at));
    for (const document of composer.compose(tokens)) {
      const problems = [...document.errors, ...document.warnings].map(({ pos, message, code }) => ({
        ...placeAt(pos[0]),
        path: '',
        message: mending[code] ?? message,
      }));
      if (problems.length > 0) {
        yield { problems };
        return;
      }
      const alias = tooManyAliases(document.contents);
      if (alias !== null) {
        yield wrong(alias.range?.[0] ?? 0, `there are more than ${documentLimits.max_aliases} aliases: write it out`);
        return;
      }
      yield { value: valueOf(document), locate: (path) => placeAt(offsetOf(document, path)) };
    }
  } catch (error) {
    const isDeep = error instanceof RangeError;
    yield wrong(
      offset,
      isDeep ? `it is nested deeper than ${documentLimits.max_depth} levels` : (error as Error).message,
    );
  }
}

/** In our words, what people meet most. */
const mending: Partial<Record<string, string>> = {
  DUPLICATE_KEY: 'this name stands here twice: keep one of them',
  TAB_AS_INDENT: 'a tab cannot indent: use spaces',
  NON_STRING_KEY: 'a name of a field must be text',
  MULTIPLE_ANCHORS: 'a value can have one anchor only',
};

/** Passes the tokens on, and refuses what would take the parser too long. */
function* bounded(tokens: Iterable<CST.Token>, at: (offset: number) => void): Generator<CST.Token> {
  for (const token of tokens) {
    if (token.type === 'document' && token.value !== undefined) check(token.value, 0, at);
    yield token;
  }
}

function check(token: CST.Token, depth: number, at: (offset: number) => void): void {
  if (!('items' in token)) return;
  at(token.offset);
  if (depth > documentLimits.max_depth) throw new RangeError('too deep');
  if (token.items.length > documentLimits.max_items)
    throw new Error(
      `this list or mapping has more than ${documentLimits.max_items} items: split it into several documents with ---`,
    );
  for (const { key, value } of token.items as CST.CollectionItem[])
    for (const one of [key, value]) if (one != null) check(one, depth + 1, at);
  at(token.offset);
}

function tooManyAliases(contents: Node | null): Alias | null {
  let count = 0;
  let found: Alias | null = null;
  visit(contents, {
    Alias: (_, node) => {
      count += 1;
      if (count <= documentLimits.max_aliases) return undefined;
      found = node;
      return visit.BREAK;
    },
  });
  return found;
}

interface Composed {
  contents: Node | null;
  range: [number, number, number] | null;
  toJS(options: { maxAliasCount: number }): unknown;
}

function valueOf(document: Composed): unknown {
  try {
    return document.toJS({ maxAliasCount: documentLimits.max_aliases });
  } catch (error) {
    if (/alias count/.test((error as Error).message))
      throw new Error('its aliases would grow without end: write it out', { cause: error });
    throw error;
  }
}

function offsetOf(document: Composed, path: Path): number {
  const resolve = (node: unknown): unknown =>
    isAlias(node) ? node.resolve(document as unknown as Parameters<Alias['resolve']>[0]) : node;
  let at: unknown = document.contents;
  let offset = document.contents?.range?.[0] ?? document.range?.[0] ?? 0;
  for (const name of path) {
    const here = resolve(at);
    if (isMap(here)) {
      const pair = here.items.find(({ key }) => isScalar(key) && String(key.value) === String(name));
      if (pair === undefined) return offset;
      at = pair.value;
      offset = (pair.key as Node).range?.[0] ?? offset;
    } else if (isSeq(here)) {
      at = here.items[Number(name)];
      offset = (at as Node | undefined)?.range?.[0] ?? offset;
    } else return offset;
  }
  return offset;
}

/** What is not JSON though it is YAML: infinities and the like. */
export function notJson(value: unknown, path: Path = []): Path | null {
  if (typeof value === 'number') return Number.isFinite(value) ? null : path;
  if (value instanceof Keep || value instanceof FromEnvironment) return null;
  if (Array.isArray(value)) return first(value.entries(), (i) => notJson(value[i], [...path, i]));
  if (typeof value === 'object' && value !== null)
    return first(Object.entries(value).entries(), (_, [name, one]) => notJson(one, [...path, name]));
  return typeof value === 'bigint' || typeof value === 'symbol' ? path : null;
}

function first<T>(items: Iterable<[number, T]>, look: (i: number, item: T) => Path | null): Path | null {
  for (const [i, item] of items) {
    const found = look(i, item);
    if (found !== null) return found;
  }
  return null;
}

export function pathText(path: Path): string {
  return path.map((name, i) => step(name, i === 0)).join('');
}

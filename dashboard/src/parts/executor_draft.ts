// What runs a job without a worker of one's own, as the form of a job holds it: texts. Made from an executor, and made into
// one; what cannot be read is told by field. Pure; used by job_draft.ts.
import type { Executor, FieldError, Parent } from '@punctual/contract';
import { readJson } from './json_text.ts';

type Draft = Record<string, string>;

/** What a program may use at most, by the names of the API. */
export const programLimits = [
  ['memory_mb', 'Memory, MB'],
  ['cpu_seconds', 'Processor time, s'],
  ['processes', 'Processes'],
  ['open_files', 'Open files'],
  ['file_mb', 'Size of a file, MB'],
  ['output_mb', 'Output, MB'],
] as const;

/** The paths of the fields of each kind; what is said against them is shown there. */
const program = ['env', 'cwd', 'fatal_exit_codes', 'sandbox', ...programLimits.map(([name]) => `limits.${name}`)];
export const executorPaths: Record<string, readonly string[]> = {
  http: ['url', 'method', 'headers', 'body', 'expect'].map((name) => `executor.${name}`),
  shell: ['command', ...program].map((name) => `executor.${name}`),
  binary: ['sha256', 'args', ...program].map((name) => `executor.${name}`),
};

/** Undefined for a job that a handler runs. */
export function readExecutor(draft: Draft, errors: FieldError[]): Record<string, unknown> | undefined {
  const reader = new Reader(draft, errors);
  const kind = draft['runs'];
  if (kind === 'http')
    return {
      kind,
      url: reader.text('url') ?? '',
      method: reader.text('method') ?? 'POST',
      ...reader.given('headers', reader.json('headers')),
      ...reader.given('body', reader.json('body')),
      ...reader.given('expect', reader.numbers('expect')),
    };
  if (kind === 'shell') return { kind, command: reader.lines('command') ?? [], ...readProgram(reader) };
  if (kind === 'binary')
    return {
      kind,
      sha256: reader.text('sha256') ?? '',
      ...reader.given('args', reader.lines('args')),
      ...readProgram(reader),
    };
  return undefined;
}

function readProgram(reader: Reader): Record<string, unknown> {
  const limits = Object.fromEntries(
    programLimits.flatMap(([name]) => {
      const value = reader.number(`limits.${name}`);
      return value === undefined ? [] : [[name, value]];
    }),
  );
  return {
    ...reader.given('env', reader.pairs('env')),
    ...reader.given('cwd', reader.text('cwd')),
    ...reader.given('fatal_exit_codes', reader.numbers('fatal_exit_codes')),
    ...reader.given('sandbox', reader.text('sandbox')),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
  };
}

/** Reads the fields of an executor; what is empty is undefined. */
class Reader {
  readonly #draft: Draft;
  readonly #errors: FieldError[];

  constructor(draft: Draft, errors: FieldError[]) {
    this.#draft = draft;
    this.#errors = errors;
  }

  given(name: string, value: unknown): Record<string, unknown> {
    return value === undefined ? {} : { [name]: value };
  }

  text(name: string): string | undefined {
    const text = this.#draft[`executor.${name}`]?.trim() ?? '';
    return text === '' ? undefined : text;
  }

  lines(name: string): string[] | undefined {
    const lines = (this.#draft[`executor.${name}`] ?? '').split('\n').filter((line) => line !== '');
    return lines.length === 0 ? undefined : lines;
  }

  json(name: string): unknown {
    const { value, fault } = readJson(this.#draft[`executor.${name}`] ?? '');
    if (fault !== undefined) this.#refuse(name, `line ${fault.line}, column ${fault.column}: ${fault.message}`);
    return value;
  }

  number(name: string): number | undefined {
    const text = this.text(name);
    if (text === undefined || /^\d+$/.test(text)) return text === undefined ? undefined : Number(text);
    this.#refuse(name, 'must be a whole number');
    return undefined;
  }

  numbers(name: string): number[] | undefined {
    const words = this.text(name)?.split(/[,\s]+/);
    if (words === undefined || words.every((word) => /^\d+$/.test(word))) return words?.map(Number);
    this.#refuse(name, 'must be whole numbers with commas between them');
    return undefined;
  }

  pairs(name: string): Record<string, string> | undefined {
    const lines = this.lines(name);
    const wrong = lines?.find((line) => !/^\s*[A-Za-z_]\w*=/.test(line));
    if (wrong !== undefined) this.#refuse(name, `${JSON.stringify(wrong)} is not NAME=value`);
    if (lines === undefined || wrong !== undefined) return undefined;
    return Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf('=')).trim(), line.slice(line.indexOf('=') + 1)]),
    );
  }

  #refuse(name: string, message: string): void {
    this.#errors.push({ path: `executor.${name}`, message });
  }
}

/** The texts of an executor. */
export function executorDraft(executor: Executor): Draft {
  const draft: Draft = {};
  const set = (name: string, value: unknown, write: (value: never) => string = String) => {
    if (value !== undefined && value !== null) draft[`executor.${name}`] = write(value as never);
  };
  const asJson = (value: unknown): string => JSON.stringify(value, null, 2);
  const asLines = (lines: string[]): string => lines.join('\n');
  const asList = (numbers: number[]): string => numbers.join(', ');
  if (executor.kind === 'http') {
    set('url', executor.url);
    set('method', executor.method ?? 'POST');
    set('headers', executor.headers, asJson);
    set('body', executor.body, asJson);
    set('expect', executor.expect, asList);
    return draft;
  }
  if (executor.kind === 'shell') set('command', executor.command, asLines);
  else {
    set('sha256', executor.sha256);
    set('args', executor.args, asLines);
  }
  set('env', executor.env, (env: Record<string, string>) =>
    asLines(Object.entries(env).map(([name, value]) => `${name}=${value}`)),
  );
  set('cwd', executor.cwd);
  set('fatal_exit_codes', executor.fatal_exit_codes, asList);
  set('sandbox', executor.sandbox);
  for (const [name] of programLimits) set(`limits.${name}`, executor.limits?.[name]);
  return draft;
}

const idShape = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const conditions = ['success', 'failure', 'any_end'] as const;

/** What a job waits for: an id a line, of a job or a run (its 33rd character tells), and how that must end. */
export function readParents(text: string, errors: FieldError[]): Parent[] | undefined {
  const lines = text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [line.trim().split(/\s+/)]));
  if (lines.length === 0) return undefined;
  const parents: Parent[] = [];
  for (const [id = '', on, ...more] of lines) {
    const condition = conditions.find((one) => one === (on ?? 'success'));
    if (!idShape.test(id.toLowerCase()) || condition === undefined || more.length > 0) {
      errors.push({
        path: 'depends_on',
        message: `${JSON.stringify([id, on, ...more].join(' '))} is not an id and how it must end`,
      });
      return undefined;
    }
    parents.push({ [id.charAt(32) === '0' ? 'job_id' : 'run_id']: id.toLowerCase(), on: condition });
  }
  return parents;
}

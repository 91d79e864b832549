// Takes secrets out of what a run says before it leaves the worker: registered values wherever they stand, also when they
// come in pieces, and the values of names such as `password`. Pure. run-log.ts and active-run.ts use it for lines and errors,
// the shell executor for the output of programs.
//
// A stream lets everything pass at once but an end that may be the beginning of a value. What it gives is the same however
// the text was cut.

const hidden = '[redacted]';
/** A shorter value would hide half of all text and keep no secret. */
const min_value_chars = 4;

const names = [
  'password|passwd|passphrase|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key',
  'authorization|credentials?|client[_-]?secret|set-cookie|cookie',
].join('|');
const secretName = new RegExp(`(?:${names})$`, 'i');
/** A name, a sign, and what it stands for: in quotes, after a scheme such as Bearer, or up to the next sign. */
const assigned = new RegExp(
  `((?:${names})["']?[ \\t]{0,3}[=:][ \\t]{0,3})(?!\\[redacted\\])("(?:[^"\\\\]|\\\\.)*"?|'(?:[^'\\\\]|\\\\.)*'?|(?:(?:bearer|basic|token|digest)[ \\t]+)?[^\\s,;&"'<>)}\\]]+)`,
  'gi',
);
const inUrl = /(:\/\/[^\s:@/]{1,200}:)(?!\[redacted\])([^\s@/]{1,500})(?=@)/g;

/** Does what bears this name have to be hidden? */
export function isSecretName(name: string): boolean {
  return secretName.test(name);
}

/** Hides secrets in texts and in JSON. */
export class Redactor {
  readonly #values: readonly string[];

  constructor(values: Iterable<string> = []) {
    this.#values = [...new Set(values)].filter((value) => value.length >= min_value_chars);
  }

  /** The same with further values. */
  with(values: Iterable<string>): Redactor {
    return new Redactor([...this.#values, ...values]);
  }

  /** A text that is whole. */
  text(text: string): string {
    return hideAssigned(this.values(text));
  }

  /** Only registered values. */
  values(text: string): string {
    if (this.#values.length === 0) return text;
    const stream = this.stream();
    return stream.push(text) + stream.end();
  }

  /** Fields as JSON; what bears the name of a secret is hidden whatever it is. */
  json(fields: unknown): string | undefined {
    return JSON.stringify(fields, (name, value: unknown) => {
      if (value !== null && value !== undefined && name !== '' && isSecretName(name)) return hidden;
      return typeof value === 'string' ? this.text(value) : value;
    });
  }

  /** For text that comes in pieces: registered values only; names are looked for in whole lines. */
  stream(): RedactedStream {
    return new RedactedStream(this.#values);
  }
}

export class RedactedStream {
  readonly #values: readonly string[];
  readonly #longest: number;
  #kept = '';
  /** So many characters of what is kept are hidden and said to be. */
  #covered = 0;

  constructor(values: readonly string[]) {
    this.#values = values;
    this.#longest = values.reduce((most, value) => Math.max(most, value.length), 0);
  }

  push(text: string): string {
    if (this.#longest === 0) return text;
    const all = this.#kept + text;
    return this.#pass(all, this.#firstBegun(all));
  }

  /** What is left, once nothing more comes. */
  end(): string {
    return this.#pass(this.#kept, this.#kept.length);
  }

  /** Gives the text up to the place, with what is to be hidden hidden, and keeps the rest. */
  #pass(all: string, to: number): string {
    let out = '';
    let at = this.#covered;
    for (const { from, end } of this.#found(all)) {
      if (from >= to) break;
      if (end <= at) continue;
      // What overlaps with something hidden belongs to it.
      if (from >= at) out += all.slice(at, from) + hidden;
      at = end;
    }
    if (at < to) {
      out += all.slice(at, to);
      at = to;
    }
    this.#kept = all.slice(to);
    this.#covered = at - to;
    return out;
  }

  /** Every value at every place where it stands, in order. */
  #found(all: string): { from: number; end: number }[] {
    const found = this.#values.flatMap((value) => {
      const places: { from: number; end: number }[] = [];
      for (let from = all.indexOf(value); from !== -1; from = all.indexOf(value, from + 1))
        places.push({ from, end: from + value.length });
      return places;
    });
    return found.sort((a, b) => a.from - b.from || b.end - a.end);
  }

  /** The first place from which the text to its end is the beginning of a value. */
  #firstBegun(all: string): number {
    for (let at = Math.max(0, all.length - this.#longest + 1); at < all.length; at++)
      for (const value of this.#values)
        if (value.length > all.length - at && value[0] === all[at] && value.startsWith(all.slice(at))) return at;
    return all.length;
  }
}

function hideAssigned(text: string): string {
  return text
    .replace(assigned, (_, name: string, value: string) => {
      const quote = value[0] === '"' || value[0] === "'" ? value[0] : '';
      return `${name}${quote}${hidden}${quote}`;
    })
    .replace(inUrl, `$1${hidden}`);
}

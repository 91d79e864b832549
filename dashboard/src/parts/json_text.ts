// Reads JSON that a person writes, and finds the first place where it is none. Browsers word and place their errors
// differently, some not at all: hence a small reader of our own. Pure.

export interface JsonFault {
  offset: number;
  line: number;
  column: number;
  message: string;
}

/** The value, or the first fault; empty text is no value. */
export function readJson(text: string): { value?: unknown; fault?: JsonFault } {
  if (text.trim() === '') return {};
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    const { offset, message } = findFault(text);
    const before = text.slice(0, offset).split('\n');
    return { fault: { offset, line: before.length, column: (before.at(-1)?.length ?? 0) + 1, message } };
  }
}

class Fault extends Error {
  readonly offset: number;

  constructor(offset: number, message: string) {
    super(message);
    this.offset = offset;
  }
}

/** Deeper than any payload may be; the reader calls itself. */
const maxDepth = 500;
const space = /[ \t\n\r]*/y;
const word = /true|false|null/y;
const number = /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const textPart = /[^"\\\u0000-\u001f]*/y;
const escaped = /\\(["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

function findFault(text: string): { offset: number; message: string } {
  let at = 0;
  const take = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found !== null) at += found[0].length;
    return found !== null;
  };
  const readText = (): void => {
    const start = at;
    at += 1;
    for (;;) {
      take(textPart);
      if (text[at] === '"') break;
      if (at >= text.length || text[at] === '\n') throw new Fault(start, 'this text has no closing "');
      if (text[at] !== '\\') throw new Fault(at, 'a control character must be written as \\u00…');
      if (!take(escaped)) throw new Fault(at, 'no such escape; a backslash is written \\\\');
    }
    at += 1;
  };
  const readMembers = (close: string, readOne: () => void): void => {
    const start = at;
    at += 1;
    take(space);
    if (text[at] === close) {
      at += 1;
      return;
    }
    for (;;) {
      readOne();
      take(space);
      if (text[at] === close) break;
      if (at >= text.length) throw new Fault(start, `this ${text[start]} has no closing ${close}`);
      if (text[at] !== ',') throw new Fault(at, `expected , or ${close}`);
      at += 1;
      take(space);
      if (text[at] === close) throw new Fault(at, `no comma may stand before ${close}`);
    }
    at += 1;
  };
  const readValue = (depth: number): void => {
    if (depth > maxDepth) throw new Fault(at, `nested deeper than ${maxDepth}`);
    take(space);
    const first = text[at];
    if (first === '{')
      readMembers('}', () => {
        if (text[at] !== '"') throw new Fault(at, 'a name in double quotes is expected here');
        readText();
        take(space);
        if (text[at] !== ':') throw new Fault(at, 'expected : after the name');
        at += 1;
        readValue(depth + 1);
      });
    else if (first === '[') readMembers(']', () => readValue(depth + 1));
    else if (first === '"') readText();
    else if (!take(word) && !take(number)) throw new Fault(at, whatIsThere(text, at));
  };
  try {
    readValue(0);
    take(space);
    if (at < text.length) throw new Fault(at, 'nothing may follow the value');
  } catch (error) {
    if (error instanceof Fault) return { offset: Math.min(error.offset, text.length), message: error.message };
    throw error;
  }
  return { offset: 0, message: 'this is not JSON' };
}

function whatIsThere(text: string, at: number): string {
  if (at >= text.length) return 'a value is missing at the end';
  if (text[at] === "'") return 'texts stand in double quotes';
  return 'a value is expected here: a text in double quotes, a number, true, false, null, { or [';
}

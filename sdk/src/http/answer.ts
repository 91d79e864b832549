// Reads HTTP/1.1 answers out of the bytes of a connection, however they are cut into chunks. Pure: bytes in, answers out.
// connection.ts feeds it. Bodies end by Content-Length, by chunked coding or by the end of the connection; whatever does
// not fit throws, and the connection is then given up.

/** An answer longer than this is a fault of the server, or this is not a Punctual server at all. */
const max_answer_bytes = 64 * 1024 * 1024;
const max_head_bytes = 64 * 1024;
const blankLine = Buffer.from('\r\n\r\n');
const lineEnd = Buffer.from('\r\n');

export interface RawAnswer {
  status: number;
  /** Status line and headers, as sent. */
  head: string;
  body: Buffer;
  /** Whether the connection can carry another request. */
  keepAlive: boolean;
}

type Part = 'head' | 'body' | 'chunk_size' | 'chunk' | 'chunk_end' | 'trailer' | 'until_close';

const patterns = {
  'content-length': /\r\ncontent-length:[ \t]*(\d+)[ \t]*(?:\r\n|$)/i,
  'content-type': /\r\ncontent-type:[ \t]*([^\r\n]*)/i,
  'transfer-encoding': /\r\ntransfer-encoding:[ \t]*([^\r\n]*)/i,
  date: /\r\ndate:[ \t]*([^\r\n]*)/i,
  connection: /\r\nconnection:[ \t]*([^\r\n]*)/i,
  'keep-alive': /\r\nkeep-alive:[ \t]*([^\r\n]*)/i,
  'retry-after': /\r\nretry-after:[ \t]*([^\r\n]*)/i,
} as const;

export function headerOf(head: string, name: keyof typeof patterns): string | undefined {
  return patterns[name].exec(head)?.[1];
}

export class AnswerReader {
  #part: Part = 'head';
  /** Bytes of a head or line whose end has not come yet. */
  #rest: Buffer | null = null;
  #answer: Omit<RawAnswer, 'body'> | null = null;
  #body: Buffer[] = [];
  #bodyBytes = 0;
  /** Bytes still to come of the body or of the chunk. */
  #missing = 0;

  /** Takes bytes and calls `answered` for each answer they complete. */
  read(bytes: Buffer, answered: (answer: RawAnswer) => void): void {
    const data = this.#rest === null ? bytes : Buffer.concat([this.#rest, bytes]);
    this.#rest = null;
    let at = 0;
    while (at < data.length) {
      const next = this.#step(data, at, answered);
      if (next === -1) {
        if (data.length - at > max_head_bytes)
          throw new Error(`the head of the answer is longer than ${max_head_bytes} bytes`);
        this.#rest = at === 0 ? data : data.subarray(at);
        return;
      }
      at = next;
    }
  }

  /** The connection has ended: completes an answer that has no other end. */
  end(answered: (answer: RawAnswer) => void): void {
    if (this.#part === 'until_close') this.#complete(answered);
  }

  /** Consumes one part from `at` on and returns where it stopped; -1 when more bytes are needed first. */
  #step(data: Buffer, at: number, answered: (answer: RawAnswer) => void): number {
    switch (this.#part) {
      case 'head':
        return this.#readHead(data, at, answered);
      case 'chunk_size':
      case 'chunk_end':
      case 'trailer':
        return this.#readLine(data, at, answered);
      case 'body':
      case 'chunk': {
        const end = Math.min(data.length, at + this.#missing);
        this.#keep(data.subarray(at, end));
        this.#missing -= end - at;
        if (this.#missing > 0) return end;
        if (this.#part === 'chunk') this.#part = 'chunk_end';
        else this.#complete(answered);
        return end;
      }
      default:
        this.#keep(data.subarray(at));
        return data.length;
    }
  }

  #readHead(data: Buffer, at: number, answered: (answer: RawAnswer) => void): number {
    const end = data.indexOf(blankLine, at);
    if (end === -1) return -1;
    const head = data.toString('latin1', at, end);
    const status = Number(head.slice(9, 12));
    if (!head.startsWith('HTTP/1.') || !(status >= 100 && status <= 999)) throw new Error('the answer is not HTTP/1.1');
    if (status >= 200) this.#begin(head, status, answered);
    return end + blankLine.length;
  }

  #begin(head: string, status: number, answered: (answer: RawAnswer) => void): void {
    const length = headerOf(head, 'content-length');
    const coding = headerOf(head, 'transfer-encoding');
    const connection = headerOf(head, 'connection')?.toLowerCase();
    const keepAlive = head.startsWith('HTTP/1.1') ? connection !== 'close' : connection === 'keep-alive';
    this.#answer = { status, head, keepAlive };
    if (coding !== undefined && coding.toLowerCase() !== 'identity') {
      if (coding.toLowerCase() !== 'chunked')
        throw new Error(`the answer has a transfer coding of no use here: ${coding}`);
      this.#part = 'chunk_size';
    } else if (status === 204 || status === 304 || length === '0') {
      this.#complete(answered);
    } else if (length !== undefined) {
      this.#missing = Number(length);
      this.#part = 'body';
    } else {
      this.#answer.keepAlive = false;
      this.#part = 'until_close';
    }
  }

  #readLine(data: Buffer, at: number, answered: (answer: RawAnswer) => void): number {
    const end = data.indexOf(lineEnd, at);
    if (end === -1) return -1;
    const line = data.toString('latin1', at, end);
    if (this.#part === 'trailer') {
      if (line === '') this.#complete(answered);
    } else if (this.#part === 'chunk_end') {
      if (line !== '') throw new Error('a chunk of the answer is longer than it says');
      this.#part = 'chunk_size';
    } else {
      const size = /^[0-9a-fA-F]{1,8}(?=[ \t]*(?:;|$))/.exec(line);
      if (size === null) throw new Error('a chunk of the answer does not say its size');
      this.#missing = Number.parseInt(size[0], 16);
      this.#part = this.#missing === 0 ? 'trailer' : 'chunk';
    }
    return end + lineEnd.length;
  }

  #keep(bytes: Buffer): void {
    this.#bodyBytes += bytes.length;
    if (this.#bodyBytes > max_answer_bytes) throw new Error(`the answer is longer than ${max_answer_bytes} bytes`);
    this.#body.push(bytes);
  }

  #complete(answered: (answer: RawAnswer) => void): void {
    const body = this.#body.length === 1 ? (this.#body[0] as Buffer) : Buffer.concat(this.#body);
    const { status, head, keepAlive } = this.#answer as Omit<RawAnswer, 'body'>;
    this.#part = 'head';
    this.#answer = null;
    this.#body = [];
    this.#bodyBytes = 0;
    answered({ status, head, body, keepAlive });
  }
}

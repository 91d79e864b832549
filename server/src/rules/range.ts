// The header Range (RFC 9110), as far as it is honoured: one range of bytes. Several, and what is not understood, count as
// none, which the standard allows. Pure.

export interface ByteRange {
  /** The first byte and the last, both included. */
  from: number;
  to: number;
}

/** null: the whole; `unsatisfiable`: nothing of the file lies in it. */
export function readRange(header: string | undefined, size: number): ByteRange | null | 'unsatisfiable' {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? '') ?? [];
  if (first === '' && last === '') return null;
  if (first === '') {
    const length = Math.min(Number(last), size);
    return length === 0 ? 'unsatisfiable' : { from: size - length, to: size - 1 };
  }
  const from = Number(first);
  if (last !== '' && Number(last) < from) return null;
  if (from >= size) return 'unsatisfiable';
  return { from, to: last === '' ? size - 1 : Math.min(Number(last), size - 1) };
}

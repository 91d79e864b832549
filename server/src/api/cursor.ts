// Cursors: opaque to users; inside, where to go on and a mark of the filters they were made for.
import { createHash } from 'node:crypto';
import { PunctualError } from '@punctual/contract';

export function makeCursor(at: string, filter: object): string {
  return Buffer.from(`${mark(filter)}${at}`).toString('base64url');
}

/** Where to go on, or null for the first page. */
export function readCursor(cursor: string | undefined, filter: object, shape: RegExp): string | null {
  if (cursor === undefined) return null;
  const text = Buffer.from(cursor, 'base64url').toString();
  const at = text.slice(8);
  if (!shape.test(at)) throw new PunctualError('invalid_cursor');
  if (text.slice(0, 8) !== mark(filter))
    throw new PunctualError('invalid_cursor', {
      detail: 'The cursor belongs to a list with other filters; start from the first page.',
    });
  return at;
}

export const idShape = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
export const timeShape = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
export const numberShape = /^\d{1,18}$/;

function mark(filter: object): string {
  const sorted = Object.entries(filter)
    .filter(([, value]) => value !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(sorted)).digest('hex').slice(0, 8);
}

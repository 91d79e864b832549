// What error messages have in common: the shape by which dead letters are put together, and the text to look for in them.
// Pure; store/dead_letter_groups.ts asks here.
import { limits } from '@punctual/contract';

/** Stands for a number or an id, which differ between messages that are otherwise the same. */
export const hole = '…';

/** Of a message only its beginning decides. */
export const shapeChars = 300;

/** Ids, numbers with their points and colons, and long hexadecimal numbers: what differs between errors that are otherwise the same. */
const varies =
  /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]+|[0-9]{12,}(?:[.,:][0-9]+)*(?![0-9a-f])|[0-9a-f]{12,}|[0-9]+(?:[.,:][0-9]+)*/gi;

/** The first line of a message, without what varies. */
export function shapeOf(message: string): string {
  const [line = ''] = message.slice(0, shapeChars).split('\n', 1);
  return line.replace(varies, hole);
}

/** A filter shorter than this would fit nearly everything. */
const minChars = 3;

/** The longest text without holes, to be looked for in the messages; null when there is none worth it. */
export function commonText(shape: string | null): string | null {
  if (shape === null) return null;
  const pieces = shape.split(/[…\p{Cc}\p{Cs}]+/u).map((piece) => piece.trim().slice(0, limits.max_name_chars));
  const longest = pieces.reduce((best, piece) => (piece.length > best.length ? piece : best), '');
  return longest.length < minChars ? null : longest;
}

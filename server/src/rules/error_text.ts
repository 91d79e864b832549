// What the error messages of a group have in common. Pure; the shapes themselves are made by store/dead_letter_groups.ts.
import { limits } from '@punctual/contract';

/** Stands for a number or an id, which differ between messages that are otherwise the same. */
export const hole = '…';

/** A filter shorter than this would fit nearly everything. */
const minChars = 3;

/** The longest text without holes, to be looked for in the messages; null when there is none worth it. */
export function commonText(shape: string | null): string | null {
  if (shape === null) return null;
  const pieces = shape.split(/[…\p{Cc}\p{Cs}]+/u).map((piece) => piece.trim().slice(0, limits.max_name_chars));
  const longest = pieces.reduce((best, piece) => (piece.length > best.length ? piece : best), '');
  return longest.length < minChars ? null : longest;
}

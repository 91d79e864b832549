// How a file is divided into parts. Pure; used by the begin of an upload, and by stores that put parts together.
import { limits } from '@punctual/contract';

/** Bytes of every part but the last: at least `least`, and so many that there are not too many parts. */
export function partBytesOf(size: number, least: number): number {
  return Math.max(least, Math.ceil(size / limits.max_artifact_parts));
}

/** How many parts there are; an empty file has none. */
export function partsOf({ size, part_bytes }: { size: number; part_bytes: number }): number {
  return Math.ceil(size / part_bytes);
}

/** Bytes of a part, counted from 1; 0 for one that does not exist. */
export function sizeOfPart({ size, part_bytes }: { size: number; part_bytes: number }, part: number): number {
  return Math.max(0, Math.min(part_bytes, size - (part - 1) * part_bytes));
}

/** All parts with their bytes, as they are when nothing is missing. */
export function allParts(upload: { size: number; part_bytes: number }): Map<number, number> {
  return new Map(Array.from({ length: partsOf(upload) }, (_, i) => [i + 1, sizeOfPart(upload, i + 1)]));
}

/** The parts that are not there, or not whole. */
export function missingParts(
  upload: { size: number; part_bytes: number },
  stored: ReadonlyMap<number, number>,
): number[] {
  const missing: number[] = [];
  for (let part = 1; part <= partsOf(upload); part++)
    if (stored.get(part) !== sizeOfPart(upload, part)) missing.push(part);
  return missing;
}

// Sizes for people, and a bar that says how far something is.

const bar_chars = 30;
const units = ['B', 'KB', 'MB', 'GB', 'TB'] as const;

export function showBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** How far something is, from 0 to 1. */
export function bar(part: number): string {
  const within = Math.max(0, Math.min(1, part));
  const filled = Math.floor(within * bar_chars);
  return `${'█'.repeat(filled)}${'░'.repeat(bar_chars - filled)} ${String(Math.floor(within * 100)).padStart(3)} %`;
}

/** A part of a whole that may be nothing. */
export function partOf(done: number, all: number): number {
  return all <= 0 ? 1 : done / all;
}

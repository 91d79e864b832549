// Small words for people: lists, ordinals, lengths of time. Used by describe.ts, warnings.ts and explain.ts.

export const weekdayWords = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'] as const;
export const monthWords = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
] as const;

/** `a`, `a and b`, `a, b and c` */
export function listWords(words: readonly string[], joint = 'and'): string {
  if (words.length < 2) return words[0] ?? '';
  return `${words.slice(0, -1).join(', ')} ${joint} ${words.at(-1)}`;
}

export function nthWord(nth: number): string {
  return ['first', 'second', 'third', 'fourth', 'fifth'][nth - 1] ?? `${nth}th`;
}

export function twoDigits(value: number): string {
  return `${value}`.padStart(2, '0');
}

/** `Every 15 minutes`, `every minute`. */
export function everyWords(count: number, unit: string): string {
  return count === 1 ? `every ${unit}` : `every ${count} ${unit}s`;
}

/** `1 hour 30 minutes` */
export function lengthWords(ms: number): string {
  const units: [string, number][] = [
    ['day', 86_400_000],
    ['hour', 3_600_000],
    ['minute', 60_000],
    ['second', 1000],
    ['millisecond', 1],
  ];
  const words: string[] = [];
  let left = ms;
  for (const [unit, size] of units) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count > 0) words.push(`${count} ${unit}${count === 1 ? '' : 's'}`);
  }
  return words.length === 0 ? '0 seconds' : words.join(' ');
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

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

export function progressBar(done: number, all: number): string {
  const part = all === 0 ? 1 : Math.min(1, done / all);
  const filled = Math.floor(part * bar_chars);
  const bar = '█'.repeat(filled) + '░'.repeat(bar_chars - filled);
  return `${bar} ${String(Math.floor(part * 100)).padStart(3)} %  ${showBytes(done)} of ${showBytes(all)}`;
}

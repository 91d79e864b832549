// Text in columns of a terminal: how wide it is, cut and padded to a width, and tables that fit. Pure; for `punctual top`.

const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const none = /[\p{Mn}\p{Me}\p{Cf}]/u;

function widthOf(character: string): number {
  if (none.test(character)) return 0;
  return wide.test(character) ? 2 : 1;
}

export function cells(text: string): number {
  let sum = 0;
  for (const character of text) sum += widthOf(character);
  return sum;
}

/** Cut to `width` columns, with a sign that it was. */
export function cutTo(text: string, width: number): string {
  if (cells(text) <= width) return text;
  if (width <= 0) return '';
  let kept = '';
  let used = 0;
  for (const character of text) {
    const next = used + widthOf(character);
    if (next > width - 1) break;
    kept += character;
    used = next;
  }
  return `${kept}…`;
}

export function pad(text: string, width: number, toTheRight = false): string {
  const cut = cutTo(text, width);
  const space = ' '.repeat(Math.max(0, width - cells(cut)));
  return toTheRight ? space + cut : cut + space;
}

export interface Column<Row> {
  title: string;
  text: (row: Row) => string;
  /** Numbers stand to the right. */
  right?: true;
}

const gap = 2;
/** Narrower than this the first column says nothing. */
const min_first = 8;

/**
 * A head and so many rows. The first column gets what the others leave; where that is too little, the last ones go.
 */
export function table<Row>(columns: readonly Column<Row>[], rows: readonly Row[], width: number): string[] {
  const shown = [...columns];
  const natural = (column: Column<Row>): number =>
    Math.max(cells(column.title), ...rows.map((row) => cells(column.text(row))));
  const rest = (): number => shown.slice(1).reduce((sum, column) => sum + gap + natural(column), 0);
  while (shown.length > 1 && width - rest() < min_first) shown.pop();
  const first = Math.max(1, width - rest());
  const widths = shown.map((column, i) => (i === 0 ? Math.min(first, natural(column)) : natural(column)));
  const line = (texts: string[]): string =>
    texts.map((text, i) => pad(text, widths[i] ?? 0, shown[i]?.right === true)).join(' '.repeat(gap));
  return [line(shown.map(({ title }) => title)), ...rows.map((row) => line(shown.map(({ text }) => text(row))))].map(
    (text) => cutTo(text.trimEnd(), width),
  );
}

const steps = '▁▂▃▄▅▆▇█';

/** The last values as bars, as many as fit. */
export function spark(values: readonly number[], width: number): string {
  const last = values.slice(-Math.max(0, width));
  const most = Math.max(1, ...last);
  return last.map((value) => steps[Math.min(7, Math.floor((value / most) * 8))] ?? '').join('');
}

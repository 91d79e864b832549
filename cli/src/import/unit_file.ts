// Unit files of systemd as sections of assignments, with the line of each. Knows comments, continued lines, and the empty
// assignment that forgets the ones before it. Pure; used by systemd.ts.
import { linesOf } from './entry.ts';

export interface Assignment {
  value: string;
  line: number;
}

export interface UnitFile {
  /** By section and name, such as `Timer.OnCalendar`. */
  assignments: Map<string, Assignment[]>;
  /** Lines that are no part of a unit file. */
  wrong: { line: number; text: string }[];
}

export function parseUnitFile(text: string): UnitFile {
  const unit: UnitFile = { assignments: new Map(), wrong: [] };
  let section = '';
  for (const { text: line, number } of wholeLines(text)) {
    const head = /^\[([^\]]+)\]$/.exec(line);
    const pair = /^([^=\s][^=]*?)\s*=\s*(.*)$/.exec(line);
    if (head !== null) section = head[1] ?? '';
    else if (pair === null || section === '') unit.wrong.push({ line: number, text: line });
    else assign(unit, `${section}.${pair[1]}`, { value: (pair[2] ?? '').trim(), line: number });
  }
  return unit;
}

function assign(unit: UnitFile, key: string, assignment: Assignment): void {
  const before = assignment.value === '' ? [] : (unit.assignments.get(key) ?? []);
  unit.assignments.set(key, assignment.value === '' ? [] : [...before, assignment]);
}

/** Lines that end with a backslash go on in the next one; comments between them are left out. */
function wholeLines(text: string): { text: string; number: number }[] {
  const whole: { text: string; number: number }[] = [];
  let open: { text: string; number: number } | null = null;
  for (const [i, raw] of linesOf(text).entries()) {
    const line = raw.trim();
    if (/^[#;]/.test(line)) continue;
    if (line === '' && open === null) continue;
    const goesOn = line.endsWith('\\');
    const part = goesOn ? line.slice(0, -1) : line;
    open = open === null ? { text: part, number: i + 1 } : { text: `${open.text} ${part}`, number: open.number };
    if (goesOn) continue;
    whole.push({ text: open.text.trim(), number: open.number });
    open = null;
  }
  if (open !== null) whole.push({ text: open.text.trim(), number: open.number });
  return whole;
}

export function all(unit: UnitFile, key: string): Assignment[] {
  return unit.assignments.get(key) ?? [];
}

/** The one that holds: the last. */
export function last(unit: UnitFile, key: string): Assignment | null {
  return all(unit, key).at(-1) ?? null;
}

export function isTrue(assignment: Assignment | null): boolean {
  return assignment !== null && /^(1|yes|y|true|t|on)$/i.test(assignment.value);
}

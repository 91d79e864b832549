// A plan as people read it: each object with what becomes of it, field by field, and what is wrong with files. What is secret
// or encrypted is not shown.
import { harmless, type Output, oneLine, type Style } from '../output.ts';
import type { Problem } from './document.ts';
import type { Fields } from './fields.ts';
import type { Plan, Step } from './plan.ts';
import { hiding, minimalAfter } from './summary.ts';

const signs: Record<Step['action'], { sign: string; style: Style; words: string }> = {
  create: { sign: '+', style: 'green', words: '' },
  update: { sign: '~', style: 'yellow', words: '' },
  replace: { sign: '±', style: 'red', words: ' is cancelled, with what runs of it, and made anew' },
  delete: { sign: '-', style: 'red', words: '' },
};

/** As long as a line of a terminal can be followed. */
const max_value_chars = 100;

export function showPlan(output: Output, { steps, unchanged }: Plan): void {
  for (const step of steps) showStep(output, step);
  output.line(summaryOf(steps, unchanged));
}

function showStep({ line, paint }: Output, step: Step): void {
  const { sign, style, words } = signs[step.action];
  const owner = step.kind.section === 'jobs' ? ownerOf(step.after ?? step.before) : '';
  line(paint(style, `${sign} ${step.kind.noun} ${oneLine(step.id, max_value_chars)}${owner}${words}`));
  if (step.action === 'create')
    for (const [name, value] of Object.entries(minimalAfter(step))) line(`    ${name}: ${shown(value)}`);
  else
    for (const { path, before, after } of hiding(step))
      line(`    ${path}: ${paint('red', shown(before))} → ${paint('green', shown(after))}`);
}

function ownerOf(value: Fields | null): string {
  const user = value?.['user_id'];
  return typeof user === 'string' ? ` of ${user}` : '';
}

function shown(value: unknown): string {
  if (value === undefined || value === null) return 'none';
  return oneLine(typeof value === 'string' ? value : JSON.stringify(value), max_value_chars);
}

export function summaryOf(steps: readonly Step[], unchanged: number): string {
  const count = (action: Step['action'], words: string): string[] => {
    const n = steps.filter((step) => step.action === action).length;
    return n === 0 ? [] : [`${n} ${words}`];
  };
  const parts = [
    ...count('create', 'to create'),
    ...count('update', 'to change'),
    ...count('replace', 'to replace'),
    ...count('delete', 'to remove'),
  ];
  return `${parts.length === 0 ? 'nothing to change' : parts.join(', ')}; ${unchanged} unchanged`;
}

/** `file:line:column: path message`, as editors and CI find it. */
export function problemText({ file, line, column, path, message }: Problem): string {
  return harmless(`${file}:${line}:${column}: ${path === '' ? '' : `${path} `}${message}`);
}

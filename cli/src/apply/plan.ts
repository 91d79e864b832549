// From what files want and what a server has to what must be done: the plan. What is there already as wanted is left alone,
// so that a plan that was carried out makes the next one empty. Pure.
import type { Entry } from './check.ts';
import type { Problem } from './document.ts';
import { type Change, differences, type Fields, filled, stripped } from './fields.ts';
import { type Context, type Given, type Kind, sections } from './kind.ts';

export type Action = 'create' | 'update' | 'replace' | 'delete';

export interface Step {
  action: Action;
  kind: Kind;
  id: string;
  before: Fields | null;
  after: Fields | null;
  changes: Change[];
  /** What the file says; of what is deleted nothing. */
  given: Given | null;
  /** The job that is there. */
  job?: PresentJob;
}

export interface Plan {
  steps: Step[];
  unchanged: number;
  problems: Problem[];
}

/** A recurring job that is there. */
export interface PresentJob {
  job_id: string;
  version: number;
  /** As a file would say it. */
  value: Fields;
  /** The sets that manage it. */
  marks: readonly string[];
}

/** Everything an object means: defaults filled in, and one spelling for what means the same. */
export function normal(kind: Kind, value: Fields, context: Context): Fields {
  const whole = filled(value, kind.defaults(value, context));
  return kind.tidy?.(whole) ?? whole;
}

/** The least that means the same, as an export has it. */
export function minimal(kind: Kind, value: Fields, context: Context): Fields {
  const whole = normal(kind, value, context);
  const identity = { [kind.id]: whole[kind.id] };
  return { ...identity, ...stripped(whole, kind.defaults(whole, context)) };
}

export interface SettingOptions {
  context: Context;
  /** Of these kinds, what the files do not hold is removed. */
  pruned: ReadonlySet<Kind>;
  /** Send secrets although they cannot be compared. */
  sendSecrets: boolean;
}

/** `present`: all there is of each kind that the files hold, as a file would say it. */
export function planSettings(
  entries: readonly Entry[],
  present: ReadonlyMap<Kind, readonly Fields[]>,
  options: SettingOptions,
): Plan {
  const plan: Plan = { steps: [], unchanged: 0, problems: [] };
  for (const [kind, objects] of present) {
    const there = new Map(objects.map((value) => [String(value[kind.id]), value]));
    const wanted = entries.filter((entry) => entry.kind === kind);
    for (const entry of wanted) planOne(plan, entry, there.get(entry.id), options);
    if (!options.pruned.has(kind)) continue;
    const kept = new Set(wanted.map(({ id }) => id));
    for (const [id, value] of there) {
      if (kept.has(id)) continue;
      const before = normal(kind, value, options.context);
      plan.steps.push({ action: 'delete', kind, id, before, after: null, changes: [], given: null });
    }
  }
  return plan;
}

function planOne(plan: Plan, entry: Entry, there: Fields | undefined, { context, sendSecrets }: SettingOptions): void {
  const { kind, id, value } = entry;
  const neutral = kind.neutral === true ? { [kind.id]: id } : undefined;
  const found = there ?? neutral;
  const before = found === undefined ? null : normal(kind, found, context);
  const wanted = normal(kind, value, context);
  if (there === undefined && kind.isOver?.(wanted, context.now_ms) === true) {
    plan.unchanged += 1;
    return;
  }
  plan.problems.push(...nothingToKeep(entry, there));
  const aligned = before === null ? wanted : (kind.align?.(wanted, before, entry) ?? wanted);
  const refused = kind.refuse?.({ given: entry, after: aligned, before }) ?? [];
  plan.problems.push(
    ...refused.map(({ path, message }) => ({ ...entry.place, path: `${entry.path}.${path}`, message })),
  );
  const sent = sendSecrets && before !== null ? secretsOf(entry) : [];
  const changes = [...(before === null ? [] : differences(before, aligned)), ...sent];
  if (before !== null && changes.length === 0) plan.unchanged += 1;
  else
    plan.steps.push({
      action: there === undefined ? 'create' : 'update',
      ...{ kind, id, before: there === undefined ? null : before, after: aligned, changes, given: entry },
    });
}

/** The secrets that a file gives, which a server never shows. */
function secretsOf({ kind, value }: Entry): Change[] {
  const at = (path: string): unknown =>
    path.split('.').reduce<unknown>((fields, name) => (fields as Fields | undefined)?.[name], value);
  return (kind.secrets ?? [])
    .filter((path) => at(path) !== undefined)
    .map((path) => ({ path, before: '(not shown)', after: '(sent)' }));
}

export function nothingToKeep(entry: Entry, there: unknown): Problem[] {
  return there === undefined ? cannotKeep(entry, `there is no such ${entry.kind.noun} to keep it of`) : [];
}

export function cannotKeep({ keeps, place, path }: Entry, why: string): Problem[] {
  return keeps.map((name) => ({
    ...place,
    path: `${path}.${name}`,
    message: `is !keep, and ${why}: give it, or !env NAME`,
  }));
}

/** What is used comes before what uses it; what is removed goes last, the other way round; gates are opened at the end. */
export function ordered(steps: readonly Step[]): Step[] {
  const rank = ({ kind, action, after }: Step): number => {
    const at = sections.indexOf(kind.section);
    if (action === 'delete') return 3 * sections.length - at;
    return kind.section === 'gates' && after?.['state'] === 'open' ? sections.length : at;
  };
  return steps.toSorted((a, b) => rank(a) - rank(b));
}

/** What objects name must be there, or come with them. */
export function danglingNames(
  entries: readonly Entry[],
  names: { section: 'calendars' | 'channels'; field: string; of: Kind['section'] },
  there: ReadonlySet<string>,
): Problem[] {
  const own = new Set(entries.filter(({ kind }) => kind.section === names.section).map(({ id }) => id));
  const noun = names.section.slice(0, -1);
  return entries
    .filter(({ kind }) => kind.section === names.of)
    .flatMap(({ value, place, path }) =>
      [value[names.field]]
        .flat()
        .filter((name) => typeof name === 'string' && !own.has(name) && !there.has(name))
        .map((name) => ({
          ...place,
          path: `${path}.${names.field}`,
          message: `names the ${noun} ${String(name)}, which is neither in the files nor on the server`,
        })),
    );
}

// CronJobs of Kubernetes become entries; other documents of the file are passed over. The command of the first container
// is run on a worker, without its image. Pure.
import { type CreateJob, limits } from '@punctual/contract';
import { LineCounter, parseAllDocuments } from 'yaml';
import { parseDuration } from '../time.ts';
import { programOf } from './container.ts';
import { type Entry, type ImportOptions, importedJob, type Parsed } from './entry.ts';
import { at } from './value_at.ts';

export interface KubernetesOptions extends ImportOptions {
  file: string;
}

const notes = [
  'As in Kubernetes: the latest missed time is caught up, a time that the clocks leave out is left out, one that they show twice comes twice, and a run that fails is tried again up to backoffLimit.',
  'Other than in Kubernetes: the command runs on a worker that allows programs, not in a container; image, volumes, resources and service account are not carried over.',
];

export function parseKubernetes(text: string, options: KubernetesOptions): Parsed {
  const parsed: Parsed = { entries: [], refused: [], notes: [...notes] };
  let others = 0;
  for (const { line, value, wrong } of documentsOf(text)) {
    const place = { file: options.file, line };
    if (wrong !== null) parsed.refused.push({ ...place, text: 'document', reason: `cannot be read: ${wrong}` });
    for (const item of wrong === null ? itemsOf(value) : []) {
      if (at(item, 'kind') !== 'CronJob') {
        others += 1;
        continue;
      }
      const found = entryOf(item, options);
      if ('reason' in found) parsed.refused.push({ ...place, text: titleOf(item), reason: found.reason });
      else parsed.entries.push({ ...place, ...found });
    }
  }
  if (others > 0)
    parsed.notes.push(
      `Passed over: ${others === 1 ? 'an object that is' : `${others} objects that are`} not a CronJob.`,
    );
  return parsed;
}

interface Document {
  line: number;
  value: unknown;
  wrong: string | null;
}

/** Whatever the file holds, wrong YAML is a document that is wrong. */
function documentsOf(text: string): Document[] {
  const lines = new LineCounter();
  try {
    const documents = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false });
    return (Array.isArray(documents) ? documents : []).flatMap((document) => {
      const line = lines.linePos(document.contents?.range?.[0] ?? document.range?.[0] ?? 0).line;
      const [error] = document.errors;
      if (error !== undefined) return [{ line: lines.linePos(error.pos[0]).line, value: null, wrong: error.message }];
      const value = valueOf(document);
      return value === null ? [] : [{ line, ...value }];
    });
  } catch (error) {
    return [{ line: 1, value: null, wrong: (error as Error).message }];
  }
}

/** Null for an empty document. Aliases that grow without end are refused by the parser. */
function valueOf(document: { toJS: () => unknown }): { value: unknown; wrong: string | null } | null {
  try {
    const value = document.toJS();
    return value === null || value === undefined ? null : { value, wrong: null };
  } catch (error) {
    return { value: null, wrong: (error as Error).message };
  }
}

function itemsOf(value: unknown): unknown[] {
  const items = at(value, 'items');
  return at(value, 'kind') !== 'CronJob' && Array.isArray(items) ? items : [value];
}

function titleOf(item: unknown): string {
  const parts = [at(item, 'metadata', 'namespace'), at(item, 'metadata', 'name')];
  return parts.filter((part) => typeof part === 'string' && part !== '').join('/') || 'CronJob';
}

type Found = Omit<Entry, 'file' | 'line'>;
type Times = Pick<CreateJob, 'cron_expression' | 'timezone' | 'interval_ms' | 'dst_gap' | 'dst_overlap'>;

function entryOf(item: unknown, options: KubernetesOptions): Found | { reason: string } {
  const name = titleOf(item);
  const spec = at(item, 'spec');
  const times = timesOf(spec, options.timezone);
  if ('reason' in times) return times;
  const policies = policiesOf(spec);
  if ('reason' in policies) return policies;
  const program = programOf(at(spec, 'jobTemplate', 'spec', 'template', 'spec'));
  if ('reason' in program) return program;
  const isInterval = times.interval_ms !== undefined;
  return {
    text: name,
    name,
    job: { ...importedJob('kubernetes', name, options), executor: program.executor, ...times, ...policies },
    source: isInterval ? null : times,
    ...(isInterval ? { sourceWords: String(at(spec, 'schedule')) } : {}),
    ...(at(spec, 'suspend') === true ? { paused: 'suspended in Kubernetes' } : {}),
    notes: program.notes,
  };
}

function timesOf(spec: unknown, timezone: string): Times | { reason: string } {
  const schedule = at(spec, 'schedule');
  if (typeof schedule !== 'string' || schedule.trim() === '') return { reason: 'has no spec.schedule' };
  const zone = at(spec, 'timeZone');
  if (zone !== undefined && zone !== null && typeof zone !== 'string') return { reason: 'spec.timeZone is not text' };
  const [, prefix, expression = ''] = /^(?:(?:CRON_)?TZ=(\S+)\s+)?(.*)$/s.exec(schedule.trim()) ?? [];
  const every = /^@every\s+(.+)$/.exec(expression);
  if (every === null)
    // As the library behind CronJobs does.
    return { cron_expression: expression, timezone: zone ?? prefix ?? timezone, dst_gap: 'skip', dst_overlap: 'both' };
  try {
    return { interval_ms: parseDuration(every[1] ?? '') };
  } catch (error) {
    return { reason: (error as Error).message };
  }
}

const overlaps = { Allow: 'allow', Forbid: 'skip', Replace: 'cancel_other' } as const;
type Policies = Pick<
  CreateJob,
  'overlap' | 'catch_up' | 'max_catch_up_age_ms' | 'max_retries' | 'backoff' | 'run_timeout_ms'
>;

function policiesOf(spec: unknown): Policies | { reason: string } {
  const policy = at(spec, 'concurrencyPolicy') ?? 'Allow';
  if (typeof policy !== 'string' || !Object.hasOwn(overlaps, policy))
    return { reason: `spec.concurrencyPolicy is ${JSON.stringify(policy)}, which is not known` };
  const deadline = at(spec, 'startingDeadlineSeconds') ?? null;
  const longest = at(spec, 'jobTemplate', 'spec', 'activeDeadlineSeconds') ?? null;
  const retries = at(spec, 'jobTemplate', 'spec', 'backoffLimit') ?? 6;
  if (!isCount(retries) || (deadline !== null && !isCount(deadline)) || (longest !== null && !isCount(longest)))
    return { reason: 'startingDeadlineSeconds, activeDeadlineSeconds or backoffLimit is not a whole number' };
  const ms = (seconds: number) => Math.min(seconds * 1000, limits.max_delay_ms);
  return {
    overlap: overlaps[policy as keyof typeof overlaps],
    catch_up: 'latest',
    ...(deadline === null ? {} : { max_catch_up_age_ms: ms(deadline) }),
    ...(longest === null || longest === 0 ? {} : { run_timeout_ms: ms(longest) }),
    max_retries: Math.min(retries, limits.max_retries),
    backoff: { base_ms: 10_000, factor: 2, max_ms: 360_000 },
  };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

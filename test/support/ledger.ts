// Reads what the jobs themselves wrote, and finds runs that were worked on by two at once.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Started, startProcess } from './process.ts';

export interface LedgerLine {
  run_id: string;
  attempt: number;
  worker: string;
  what: 'start' | 'tick' | 'stop' | 'end' | 'saved';
  /** Of the lease under which the attempt started. */
  fence?: number;
  /** How far the work is, of runs that go by steps. */
  step?: number;
  /** Monotonic, the same for all processes of the machine. */
  at_ms: number;
}

const program = fileURLToPath(new URL('./ledger_worker.js', import.meta.url));

export interface LedgerWorkerOptions {
  url: string;
  id: string;
  ledger: string;
  slots?: number;
  env?: Record<string, string>;
}

/** One that may still be on its way to a server. */
export function launchLedgerWorker({ url, id, ledger, slots = 5, env = {} }: LedgerWorkerOptions): Started {
  return startProcess(process.execPath, [program, url, id, path.resolve(ledger), String(slots)], env);
}

export async function startLedgerWorker(options: LedgerWorkerOptions): Promise<Started> {
  const worker = launchLedgerWorker(options);
  await worker.said(/worker ready/);
  return worker;
}

export function readLedger(file: string): LedgerLine[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.endsWith('}'));
  return lines.map((line) => JSON.parse(line) as LedgerLine);
}

export const monotonicNow = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000;

interface Span {
  run_id: string;
  attempt: number;
  from: number;
  to: number;
}

/** Work writes every few milliseconds: without a line for so long, its process stood still. */
const standstill_ms = 500;
/** A process that wakes after its lease has ended gets a moment to notice, and is killed then. */
const notice_ms = 1_500;

/**
 * When each attempt was at work: from its first to its last line. What a process that was frozen writes before it can know
 * that its lease has ended is nobody's promise, and does not count; what it writes after that does.
 */
function spansOf(lines: readonly LedgerLine[]): Span[] {
  const spans = new Map<string, Span & { last: number; excusedUntil: number }>();
  for (const { run_id, attempt, worker, at_ms } of [...lines].sort((a, b) => a.at_ms - b.at_ms)) {
    const key = `${run_id} ${attempt} ${worker}`;
    const span = spans.get(key) ?? { run_id, attempt, from: at_ms, to: at_ms, last: at_ms, excusedUntil: 0 };
    spans.set(key, span);
    if (at_ms - span.last > standstill_ms) span.excusedUntil = at_ms + notice_ms;
    if (at_ms > span.excusedUntil) span.to = at_ms;
    span.last = at_ms;
  }
  return [...spans.values()];
}

/** Attempts of one run whose work overlapped in time. */
export function overlaps(lines: readonly LedgerLine[]): string[] {
  const found: string[] = [];
  const all = spansOf(lines).sort((a, b) => a.from - b.from);
  for (const [i, a] of all.entries()) {
    for (const b of all.slice(i + 1)) {
      if (a.run_id === b.run_id && b.from < a.to)
        found.push(`${a.run_id}: attempt ${a.attempt} until ${a.to}, attempt ${b.attempt} from ${b.from}`);
    }
  }
  return found;
}

/** The most that ran at once. */
export function mostAtOnce(lines: readonly LedgerLine[]): number {
  const steps = spansOf(lines).flatMap(({ from, to }) => [
    { at: from, by: 1 },
    { at: to, by: -1 },
  ]);
  steps.sort((a, b) => a.at - b.at || a.by - b.by);
  let running = 0;
  return steps.reduce((most, { by }) => Math.max(most, (running += by)), 0);
}

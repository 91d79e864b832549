// `punctual stats`: how everything stands, on one screen.
import type { Stats } from '@punctual/contract';
import type { Command } from 'commander';
import { harmless, oneLine } from '../output.ts';
import { type ClientSession, remotely } from '../session.ts';
import { now, showRelative, writeDuration } from '../time.ts';

/** Longer ones are cut; --json has them whole. */
const max_text_chars = 100;

export function addStats(stats: Command): void {
  stats.action(remotely(show));
}

async function show({ client, output }: ClientSession): Promise<void> {
  const stats = await client.stats();
  if (output.asJson) return output.json(stats);
  output.fields(statsFields(stats));
  if (stats.queues.length > 0) {
    output.line();
    output.table(['QUEUE', 'GATE', 'READY', 'RUNNING'], stats.queues.map(queueRow));
  }
  if (stats.changes.length === 0) return;
  const at = now();
  output.line();
  output.table(
    ['WHEN', 'WHAT', 'NAME', ''],
    stats.changes.map(({ at: when, kind, name, text }) => [
      showRelative(Date.parse(when), at),
      kind.replace('_', ' '),
      harmless(name),
      oneLine(text, max_text_chars),
    ]),
  );
}

export function statsFields(stats: Stats): [string, string][] {
  const { workers, minutes } = stats;
  const failed = minutes.reduce((sum, minute) => sum + minute.failed, 0);
  return [
    ['started', `${stats.started_per_s} a second`],
    ['ended', `${stats.ended_per_s} a second`],
    ['start delay', `median ${delay(stats.late_p50_ms)}, p99 ${delay(stats.late_p99_ms)}`],
    ['failed', `${failed} within ${minutes.length} minutes, ${stats.dead_letters} open dead letters`],
    ['waiting', `${stats.ready}${stats.exact ? '' : ' or more'} due`],
    ['running', `${stats.running} in ${workers.slots} slots of ${workers.alive} workers`],
  ];
}

function queueRow({ name, state, ready, exact, running }: Stats['queues'][number]): string[] {
  return [name, state, `${ready}${exact ? '' : '+'}`, String(running)];
}

function delay(ms: number | null): string {
  return ms === null ? 'unknown' : writeDuration(Math.round(ms));
}

// How queues, gates, breakers and limits look on a terminal.
import type { Breaker, Gate, LaneLimit, Queue } from '@punctual/contract';
import { rateWords } from './limit_flags.ts';
import { oneLine, type Paint } from './output.ts';
import { showRelative, writeDuration } from './time.ts';

const max_note_chars = 60;

const stateColours = { open: 'green', closed: 'green', hold: 'yellow', probing: 'yellow', drop: 'red' } as const;

function showState(state: Gate['state'] | Breaker['state'], isBreaker: boolean, paint: Paint): string {
  return paint(isBreaker && state === 'open' ? 'red' : stateColours[state], state);
}

const orNone = (value: number | null): string => (value === null ? 'any' : String(value));

export const queueHead = ['QUEUE', 'GATE', 'READY', 'RUNNING', 'AT ONCE', 'RATE', 'PRIORITY', 'AGEING'];

export function queueRow(queue: Queue, paint: Paint): string[] {
  return [
    queue.name,
    showState(queue.state, false, paint),
    String(queue.ready),
    String(queue.running),
    orNone(queue.max_concurrency),
    rateWords(queue.rate),
    String(queue.default_priority),
    queue.ageing_ms === null ? '–' : writeDuration(queue.ageing_ms),
  ];
}

export function queueFields(queue: Queue, paint: Paint): [string, string][] {
  const names = ['queue', 'gate', 'ready', 'running', 'at once', 'rate', 'priority', 'ageing'];
  return queueRow(queue, paint).map((value, i) => [names[i] ?? '', value]);
}

export const gateHead = ['GATE', 'NAME', 'STATE', 'BY', 'SINCE', 'NOTE'];

export function gateRow(gate: Gate, paint: Paint, now: number): string[] {
  return [
    gate.kind,
    gate.name,
    showState(gate.state, false, paint),
    gate.author ?? '–',
    showRelative(Date.parse(gate.changed_at), now),
    oneLine(gate.note ?? '', max_note_chars),
  ];
}

export const breakerHead = ['BREAKER', 'STATE', 'TRIPS AT', 'FAILED', 'COOL-DOWN', 'SINCE'];

export function breakerRow(breaker: Breaker, paint: Paint, now: number): string[] {
  return [
    breaker.type,
    showState(breaker.state, true, paint),
    `${Math.round(breaker.error_rate * 100)} % of ${breaker.min_attempts} or more within ${writeDuration(breaker.window_ms)}`,
    `${breaker.failed} of ${breaker.failed + breaker.succeeded}`,
    writeDuration(breaker.cool_down_ms),
    showRelative(Date.parse(breaker.changed_at), now),
  ];
}

export const laneLimitHead = ['LIMIT', 'NAME', 'AT ONCE', 'RUNNING', 'RATE', 'LEFT', 'NOTE'];

export function laneLimitRow(limit: LaneLimit): string[] {
  return [
    limit.kind,
    limit.name,
    orNone(limit.max_concurrency),
    String(limit.running),
    rateWords(limit.rate),
    limit.tokens === null ? '–' : String(Math.floor(limit.tokens)),
    oneLine(limit.note ?? '', max_note_chars),
  ];
}

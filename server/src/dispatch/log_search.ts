// One page of a search through all logs. It reads days from the newest to the oldest, chunks from the newest to the oldest
// within a day, and lines from the last to the first within a chunk, and stops when the page is full, or when it has read
// or taken as much as a page may: the place where it stopped is where the next page begins. Called by api/logs.ts.
import { type LogHit, type LogLevel, limits } from '@punctual/contract';
import { monotonicMs } from '../base/clock.ts';
import { readLines, type StoredLine } from '../rules/log_lines.ts';
import { findTerms, snippet, type Term } from '../rules/log_words.ts';
import type { Queryable } from '../store/database.ts';
import {
  above,
  type ChunkPlace,
  type ChunkSearch,
  type Found,
  type FoundChunk,
  findChunks,
  findChunksOfRun,
  highestChunk,
  placeAfter,
} from '../store/log_search.ts';

/** A page that has taken this long ends with what it has found. */
const maxPageMs = 200;
/** Filters that are looked at in one statement: few at first, because what stands everywhere is found at once. */
const firstSteps = 200;
const furtherSteps = 4000;
const chunksAtOnce = 50;
const dayMs = 24 * 3600 * 1000;

export interface Place extends ChunkPlace {
  /** The day, in days since 1970. */
  day: number;
  /** Of the first chunk only lines below this one; null for all. */
  line: number | null;
}

export interface LogSearch extends Pick<ChunkSearch, 'probes' | 'choice' | 'from' | 'to'> {
  terms: readonly Term[];
  run_id: string | undefined;
  level: LogLevel | undefined;
  limit: number;
  place: Place | null;
}

interface Page {
  hits: LogHit[];
  next: Place | null;
}

export async function searchLogs(db: Queryable, search: LogSearch): Promise<Page> {
  const began = monotonicMs();
  const hits: LogHit[] = [];
  const newest = dayOf(search.to.getTime() - 1);
  let place: Place | null = search.place === null || search.place.day > newest ? topOf(newest) : search.place;
  let steps = firstSteps;
  for (let read = 0; place !== null; steps = furtherSteps) {
    const { day }: Place = place;
    const { chunks, next }: Found = await readBatch(db, search, place, steps);
    for (const chunk of chunks) {
      // The chunk of which a page was cut short may be gone.
      const below: number | null = above(chunk.chunk) === place.within ? place.line : null;
      const cut = linesOf(chunk, search, { below, room: search.limit - hits.length });
      hits.push(...cut.hits);
      place = { day, ...placeAfter(chunk), line: cut.line };
      if (cut.line !== null) return { hits, next: { ...place, within: above(chunk.chunk) } };
      if (monotonicMs() - began > maxPageMs) return { hits, next: place };
    }
    place = next === null ? dayBefore(day, search.from) : { day, ...next, line: null };
    read += chunks.length;
    if (hits.length >= search.limit || read >= limits.max_search_chunks || monotonicMs() - began > maxPageMs) break;
  }
  return { hits, next: place };
}

function readBatch(db: Queryable, search: LogSearch, place: Place, steps: number): Promise<Found> {
  const { probes, choice, run_id, from, to } = search;
  const dayEnd = new Date((place.day + 1) * dayMs);
  const wanted: ChunkSearch = {
    probes,
    choice,
    from: new Date(Math.max(from.getTime(), place.day * dayMs)),
    to: new Date(Math.min(to.getTime(), dayEnd.getTime())),
    dayEnd,
    place,
    limit: chunksAtOnce,
  };
  return run_id === undefined ? findChunks(db, wanted, steps) : findChunksOfRun(db, run_id, wanted);
}

/** The lines of a chunk that fit, last first; `line` says where to go on when there is room for no more. */
function linesOf(
  chunk: FoundChunk,
  { terms, level }: LogSearch,
  { below, room }: { below: number | null; room: number },
): { hits: LogHit[]; line: number | null } {
  const lines = readLines(chunk);
  const hits: LogHit[] = [];
  for (let i = Math.min(below ?? lines.length, lines.length) - 1; i >= 0; i--) {
    const line = lines[i] as StoredLine;
    if (level !== undefined && line.level !== level) continue;
    const ranges = findTerms(terms, line.message);
    if (ranges === null) continue;
    if (hits.length === room) return { hits, line: i + 1 };
    hits.push(toHit(chunk, line, ranges));
  }
  return { hits, line: null };
}

function toHit(chunk: FoundChunk, line: StoredLine, ranges: NonNullable<ReturnType<typeof findTerms>>): LogHit {
  const stored_at = chunk.created_at.toISOString();
  return {
    source: chunk.is_error === true ? 'error' : 'log',
    run_id: chunk.run_id,
    job_id: chunk.job_id,
    name: chunk.name,
    type: chunk.type,
    queue: chunk.queue,
    user_id: chunk.user_id,
    executor_id: chunk.worker_id,
    attempt_number: chunk.attempt,
    at: line.at ?? stored_at,
    stored_at,
    level: line.level,
    stream: line.stream ?? 'log',
    ...snippet(line.message, ranges),
  };
}

export function dayOf(ms: number): number {
  return Math.floor(ms / dayMs);
}

function topOf(day: number): Place {
  return { day, below: highestChunk, within: highestChunk, line: null };
}

function dayBefore(day: number, from: Date): Place | null {
  return day <= dayOf(from.getTime()) ? null : topOf(day - 1);
}

/** As it stands in a cursor. */
export const placeShape = /^\d{1,6}\.\d{1,18}\.\d{1,18}\.\d{0,6}$/;

export function placeText({ day, below, within, line }: Place): string {
  return `${day}.${below}.${within}.${line ?? ''}`;
}

export function readPlace(text: string): Place {
  const [day, below = '', within = '', line] = text.split('.');
  return { day: Number(day), below, within, line: line === '' ? null : Number(line) };
}

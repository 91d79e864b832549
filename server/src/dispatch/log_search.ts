// One page of a search through all logs. It reads days from the newest to the oldest, chunks from the newest to the oldest
// within a day, and lines from the last to the first within a chunk, and stops when the page is full, or when it has read
// or taken as much as a page may: the place where it stopped is where the next page begins. Called by api/logs.ts.
import { type LogHit, type LogLevel, type LogLine, limits } from '@punctual/contract';
import { monotonicMs } from '../base/clock.ts';
import { findTerms, snippet, type Term } from '../rules/log_words.ts';
import type { Queryable } from '../store/database.ts';
import { type ChunkSearch, type FoundChunk, findChunks, walkChunks } from '../store/log_search.ts';

/** A page that has taken this long ends with what it has found. */
const maxPageMs = 200;
/** Chunks that are looked at one by one before the index of words is asked. */
const walkSteps = 300;
const chunksAtOnce = 50;
const dayMs = 24 * 3600 * 1000;
const highestChunk = '999999999999999999';

export interface Place {
  /** The day, in days since 1970. */
  day: number;
  /** Only chunks below this one. */
  below: string;
  /** And of the chunk just below it only lines below this one; null for all. */
  line: number | null;
}

export interface LogSearch {
  terms: readonly Term[];
  /** The words and choices as a tsquery. */
  words: string;
  run_id: string | undefined;
  level: LogLevel | undefined;
  from: Date;
  to: Date;
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
  let place: Place | null =
    search.place === null || search.place.day > newest
      ? { day: newest, below: highestChunk, line: null }
      : search.place;
  let walked: number | null = null;
  for (let read = 0; place !== null; ) {
    const { day }: Place = place;
    const batch = await readBatch(db, search, place, walked !== day);
    walked = day;
    for (const chunk of batch.found) {
      const cut = linesOf(chunk, search, { below: place.line, room: search.limit - hits.length });
      place = { day, below: chunk.chunk, line: null };
      hits.push(...cut.hits);
      if (cut.line !== null) return { hits, next: { day, below: above(chunk.chunk), line: cut.line } };
      if (monotonicMs() - began > maxPageMs) return { hits, next: place };
    }
    place = batch.seen === null ? dayBefore(day, search.from) : { day, below: batch.seen, line: null };
    read += batch.found.length;
    if (hits.length >= search.limit || read >= limits.max_search_chunks || monotonicMs() - began > maxPageMs) break;
  }
  return { hits, next: place };
}

/** The next chunks of the day, and the chunk down to which all were seen: null for all of the day. */
async function readBatch(
  db: Queryable,
  { words, run_id, from, to }: LogSearch,
  { day, below }: Place,
  walk: boolean,
): Promise<{ found: FoundChunk[]; seen: string | null }> {
  const search: ChunkSearch = {
    words,
    run_id,
    from: new Date(Math.max(from.getTime(), day * dayMs)),
    to: new Date(Math.min(to.getTime(), (day + 1) * dayMs)),
    below,
    limit: chunksAtOnce,
  };
  if (walk) return walkChunks(db, { ...search, steps: walkSteps });
  const found = await findChunks(db, search);
  return { found, seen: found.length < chunksAtOnce ? null : (found.at(-1)?.chunk ?? null) };
}

/** The lines of a chunk that fit, last first; `line` says where to go on when there is room for no more. */
function linesOf(
  chunk: FoundChunk,
  { terms, level }: LogSearch,
  { below, room }: { below: number | null; room: number },
): { hits: LogHit[]; line: number | null } {
  const lines = JSON.parse(chunk.lines) as LogLine[];
  const hits: LogHit[] = [];
  for (let i = Math.min(below ?? lines.length, lines.length) - 1; i >= 0; i--) {
    const line = lines[i] as LogLine;
    if (level !== undefined && line.level !== level) continue;
    const ranges = findTerms(terms, line.message);
    if (ranges === null) continue;
    if (hits.length === room) return { hits, line: i + 1 };
    hits.push(toHit(chunk, line, ranges));
  }
  return { hits, line: null };
}

function toHit(chunk: FoundChunk, line: LogLine, ranges: NonNullable<ReturnType<typeof findTerms>>): LogHit {
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

function dayBefore(day: number, from: Date): Place | null {
  return day <= dayOf(from.getTime()) ? null : { day: day - 1, below: highestChunk, line: null };
}

function above(chunk: string): string {
  return String(BigInt(chunk) + 1n);
}

/** As it stands in a cursor. */
export const placeShape = /^\d{1,6}\.\d{1,18}\.\d{0,6}$/;

export function placeText({ day, below, line }: Place): string {
  return `${day}.${below}.${line ?? ''}`;
}

export function readPlace(text: string): Place {
  const [day, below = '', line] = text.split('.');
  return { day: Number(day), below, line: line === '' ? null : Number(line) };
}

// What an import reads from a file of another scheduler: entries that become jobs, and what cannot become one. The
// parsers of this folder make these; they are pure and refuse by a sentence, never by an exception.
import { type CreateJob, limits, type PreviewRequest } from '@punctual/contract';

export interface Entry {
  file: string;
  line: number;
  /** As it stands in the file. */
  text: string;
  name: string;
  job: CreateJob;
  /** The schedule as the other scheduler follows it; null when its times depend on when it was started. */
  source: PreviewRequest | null;
  /** When `source` is null: its times in words. */
  sourceWords?: string;
  /** It is switched off there: the job is created paused, with this note. */
  paused?: string;
  /** What is different in Punctual, for this entry alone. */
  notes: string[];
}

export interface Refused {
  file: string;
  line: number;
  /** As it stands in the file. */
  text: string;
  reason: string;
}

export interface Parsed {
  entries: Entry[];
  refused: Refused[];
  /** What is different in Punctual, for all entries. */
  notes: string[];
}

/** The same for every entry of an import. */
export interface ImportOptions {
  /** The time zone of the machine the file comes from. */
  timezone: string;
  queue?: string;
}

/** More is no crontab; each entry is a question to the server. */
export const max_entries = 1000;

/** Nothing there has a timeout: the longest that Punctual allows. */
const timeout_ms = limits.max_timeout_ms;
const max_name_chars = 80;

/** The fields that all imported jobs share; what the other scheduler does not do is not done here either. */
export function importedJob(kind: string, name: string, options: ImportOptions): CreateJob {
  return {
    name: nameOf(name),
    tags: ['imported', kind],
    ...(options.queue === undefined ? {} : { queue: options.queue }),
    max_retries: 0,
    timeout_ms,
  };
}

/** A line for people, of characters that a name may have. */
function nameOf(text: string): string {
  const line = Array.from(text.replace(/[\p{Cc}\p{Cs}\s]+/gu, ' ').trim());
  if (line.length === 0) return 'imported';
  return line.length <= max_name_chars ? line.join('') : `${line.slice(0, max_name_chars - 1).join('')}…`;
}

/** Lines without their ends, whatever system wrote them. */
export function linesOf(text: string): string[] {
  return text.split(/\r\n|\n|\r/);
}

// Logs: the lines that runs write, with what is needed to follow and to search them. Schemas and routes.
import type { Static } from 'typebox';
import { defaults, limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Id, Label, NextCursor, nullable, PageQuery, Timestamp } from './shapes.ts';
import { Type } from './type.ts';

export const LogLevel = Type.Enum(['debug', 'info', 'warn', 'error']);
export type LogLevel = Static<typeof LogLevel>;

export const LogStream = Type.Enum(['log', 'stdout', 'stderr'], {
  description: 'log: written by a handler; stdout, stderr: the output of a program',
});
export type LogStream = Static<typeof LogStream>;

export const LogLine = closed({
  at: described(Timestamp, { description: 'When it was written, by the clock of the worker' }),
  level: LogLevel,
  stream: Type.Optional(described(LogStream, { default: 'log' })),
  message: Type.String({
    maxLength: limits.max_log_line_chars,
    description: 'As it was written, escape sequences and all: whoever shows it makes it harmless',
  }),
});
export type LogLine = Static<typeof LogLine>;

export const StoredLogLine = Type.Object({
  ...LogLine.properties,
  stream: LogStream,
  attempt_number: Type.Integer(),
});
export type StoredLogLine = Static<typeof StoredLogLine>;

export const LogPage = Type.Object({ lines: Type.Array(StoredLogLine), next_cursor: NextCursor });
export type LogPage = Static<typeof LogPage>;

export const LogPageQuery = closed({
  ...PageQuery,
  follow: Type.Optional(
    Type.Boolean({ default: false, description: 'true: a stream of events that goes on until the run has ended' }),
  ),
});
export type LogPageQuery = Static<typeof LogPageQuery>;

export const LogSearchQuery = closed({
  ...PageQuery,
  q: Type.String({
    minLength: 1,
    maxLength: limits.max_search_chars,
    description:
      'Words that must all stand in one line; "several words" in quotes must stand so; pay* begins a word. Case does not matter',
  }),
  job_id: Type.Optional(Id),
  run_id: Type.Optional(Id),
  type: Type.Optional(Label),
  queue: Type.Optional(Label),
  user_id: Type.Optional(Label),
  worker_id: Type.Optional(Label),
  level: Type.Optional(LogLevel),
  from: Type.Optional(
    described(Timestamp, {
      description: `Only lines that were stored at or after this time; ${defaults.search_days} days before \`to\` unless given`,
    }),
  ),
  to: Type.Optional(described(Timestamp, { description: 'Only lines that were stored before this time' })),
});
export type LogSearchQuery = Static<typeof LogSearchQuery>;

export const LogHit = Type.Object(
  {
    source: Type.Enum(['log', 'error'], { description: 'error: why an attempt failed' }),
    run_id: Id,
    job_id: Id,
    name: Type.String(),
    type: Type.String(),
    queue: Type.String(),
    user_id: nullable(Type.String()),
    executor_id: nullable(Type.String({ description: 'The worker that wrote it' })),
    attempt_number: Type.Integer(),
    at: Timestamp,
    stored_at: described(Timestamp, { description: 'When it arrived, by the clock of the database' }),
    level: LogLevel,
    stream: LogStream,
    text: Type.String({
      description: `The line, or ${limits.max_snippet_chars} characters of it around what was found`,
    }),
    highlights: Type.Array(
      Type.Object(
        { from: Type.Integer(), to: Type.Integer() },
        { description: 'Characters of `text`, without the last' },
      ),
      { description: 'What was found' },
    ),
  },
  { description: 'A line that was found' },
);
export type LogHit = Static<typeof LogHit>;

export const LogSearchPage = Type.Object({ hits: Type.Array(LogHit), next_cursor: NextCursor });
export type LogSearchPage = Static<typeof LogSearchPage>;

export const logRoutes = {
  searchLogs: route({
    method: 'GET',
    path: '/logs/search',
    operation: 'searchLogs',
    access: { role: 'viewer', rows: 'own' },
    tag: 'logs',
    summary: 'Lines of all runs, and errors, that hold the words asked for; newest first',
    description: 'Each page reads a bounded part of the logs: it may be short, even empty, and still have a next one.',
    query: LogSearchQuery,
    success: 200,
    response: LogSearchPage,
    errors: ['invalid_input', 'invalid_cursor'],
  }),
} as const;

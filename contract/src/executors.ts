// Executors: how a job is done without a worker of one's own, by calling a URL or running a program. Part of a job
// (jobs.ts) and of what a worker is granted (workers.ts); worker/src/executors does what is written here.
import type { Static } from 'typebox';
import { defaults, limits } from './limits.ts';
import { closed, described, Json, Sha256 } from './shapes.ts';
import { Type } from './type.ts';

export const HttpExecutor = closed(
  {
    kind: Type.Literal('http'),
    url: Type.String({
      minLength: 1,
      maxLength: 4096,
      pattern: '^https?://[^\\p{Cc}\\p{Cs}\\s]+$',
      description: 'With `{{secret:NAME}}` for what only the worker knows; in headers and body too',
    }),
    method: Type.Optional(Type.Enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'], { default: 'POST' })),
    headers: Type.Optional(
      Type.Record(
        Type.String({ pattern: '^[A-Za-z0-9-]{1,100}$' }),
        Type.String({ maxLength: 4096, pattern: '^[^\\p{Cc}\\p{Cs}]*$' }),
        {
          maxProperties: 50,
          additionalProperties: false,
        },
      ),
    ),
    body: Type.Optional(
      described(Json, {
        description:
          'What to send instead of the payload. `{{payload.a.b}}` in its texts stands for that part of the payload',
      }),
    ),
    expect: Type.Optional(
      Type.Array(Type.Integer({ minimum: 200, maximum: 599 }), {
        minItems: 1,
        maxItems: limits.max_expected_statuses,
        uniqueItems: true,
        description: 'The statuses that are success, and no others; every 2xx when not given',
      }),
    ),
  },
  {
    description:
      'Calls a URL. 2xx, or what is expected, is success; 408, 425, 429 and 5xx are tried again; other answers are fatal',
  },
);

const atMost = (maximum: number, description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum, description }));

export const ShellLimits = closed(
  {
    memory_mb: atMost(limits.max_shell_mb, 'Memory of the program and all it starts'),
    cpu_seconds: atMost(limits.max_shell_cpu_seconds, 'Processor time of each process'),
    processes: atMost(limits.max_shell_processes, 'Processes and threads at a time'),
    open_files: atMost(limits.max_shell_open_files, 'Open files of each process'),
    file_mb: atMost(limits.max_shell_mb, 'The size of each file it writes'),
    output_mb: atMost(limits.max_shell_mb, 'What it writes to standard output and standard error together'),
  },
  { description: 'What the program may use. A worker has limits of its own, which these can only lower' },
);
export type ShellLimits = Static<typeof ShellLimits>;

const Argument = Type.String({ maxLength: 32_768, pattern: '^[^\\u0000\\p{Cs}]*$' });

/** What may be said of any program. */
const programFields = {
  env: Type.Optional(
    Type.Record(
      Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,99}$' }),
      Type.String({ maxLength: 32_768, pattern: '^[^\\u0000\\p{Cs}]*$' }),
      {
        maxProperties: 100,
        additionalProperties: false,
      },
    ),
  ),
  cwd: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 4096,
      pattern: '^[^\\u0000\\p{Cs}]*$',
      description: 'The folder it runs in; one of its own, removed afterwards, when not given',
    }),
  ),
  fatal_exit_codes: Type.Optional(
    Type.Array(Type.Integer({ minimum: 1, maximum: 255 }), {
      maxItems: 255,
      uniqueItems: true,
      default: defaults.fatal_exit_codes,
      description: 'Exit codes after which it is not tried again; 64 is a usage error',
    }),
  ),
  limits: Type.Optional(ShellLimits),
  sandbox: Type.Optional(
    Type.Enum(['none', 'no_network'], {
      default: 'none',
      description: 'no_network: it reaches no network at all; refused by a worker that cannot do that',
    }),
  ),
};

export const ShellExecutor = closed(
  {
    kind: Type.Literal('shell'),
    command: Type.Array(Argument, {
      minItems: 1,
      maxItems: 256,
      description:
        'Program and arguments; no shell interprets them, and no secrets: others on the machine can read them',
    }),
    ...programFields,
  },
  {
    description:
      'Runs a program on a worker that allows it (PUNCTUAL_ALLOW_SHELL=true). Exit code 0 is success; the payload comes on standard input. See docs/executors.md',
  },
);

export const BinaryExecutor = closed(
  {
    kind: Type.Literal('binary'),
    sha256: described(Sha256, { description: 'The artifact that is the program; uploaded before' }),
    args: Type.Optional(
      Type.Array(Argument, { maxItems: 255, description: 'Its arguments; no shell interprets them' }),
    ),
    ...programFields,
  },
  {
    description:
      'Runs an artifact as a program, on a worker that allows it (PUNCTUAL_ALLOW_BINARY=true), like `shell` otherwise. See docs/executors.md',
  },
);

export const Executor = Type.Union([HttpExecutor, ShellExecutor, BinaryExecutor], {
  description: 'How to do the work without a worker of one’s own',
});
export type HttpExecutor = Static<typeof HttpExecutor>;
export type ShellExecutor = Static<typeof ShellExecutor>;
export type BinaryExecutor = Static<typeof BinaryExecutor>;
export type Executor = Static<typeof Executor>;

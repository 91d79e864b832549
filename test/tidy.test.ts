// The house rules as a test. Each failure names the place and says what to do about it. Exceptions stand in the tables
// below with their reason; one that is no longer needed fails too, so the lists only hold what is true.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { importsOf, listFiles, placesOf, read, root } from './support/tree.ts';

const files = listFiles();
const sources = files.filter((file) => /\.(ts|tsx)$/.test(file));
/** What is shipped: everything in a workspace's src but its tests. */
const shipped = sources.filter((file) => /^[a-z]+\/src\//.test(file) && !/\.test\.(support\.)?tsx?$/.test(file));

function none(violations: readonly string[], advice: string): void {
  if (violations.length > 0) assert.fail(`${advice}\n  ${violations.join('\n  ')}`);
}

describe('imports', () => {
  /** Of server/src, from the ground up: a part knows itself and what stands on a lower step, never its own step. */
  const steps = [
    ['rules', 'base', 'version.ts'],
    ['config_keys.ts'],
    ['config.ts'],
    ['start_error.ts'],
    ['store'],
    ['scheduler', 'dispatch', 'artifacts', 'alerts', 'upkeep', 'access'],
    ['api', 'loops.ts'],
    ['main.ts'],
    ['index.ts'],
  ];
  /** Stands beside the steps: knows nothing of the server, and only the CLI knows it. */
  const alone = 'embedded';

  const partOf = (file: string): string => path.relative('server/src', file).split(path.sep)[0] ?? '';
  const stepOf = (part: string): number => steps.findIndex((step) => step.includes(part));
  const mayImport = (from: string, to: string): boolean =>
    from === to || (from !== alone && to !== alone && stepOf(to) < stepOf(from));

  test('every part of the server stands on a step', () => {
    const parts = new Set(shipped.filter((file) => file.startsWith('server/src/')).map(partOf));
    const homeless = [...parts].filter((part) => part !== alone && stepOf(part) === -1);
    none(homeless, 'Give these parts of server/src a place in `steps` of test/tidy.test.ts:');
  });

  test('within the server imports go one way', () => {
    const wrong = sources
      .filter((file) => file.startsWith('server/src/'))
      .flatMap((file) =>
        importsOf(read(file))
          .filter(({ from }) => from.startsWith('.'))
          .map(({ from, line }) => ({ file, line, target: path.join(path.dirname(file), from) }))
          .filter(({ target }) => !mayImport(partOf(file), partOf(target)))
          .map(({ line, target }) => `${file}:${line} imports ${target}`),
      );
    none(
      wrong,
      `Imports go up this list only, and not between parts of one step: ${steps.map((s) => s.join(', ')).join(' → ')}.`,
    );
  });

  /** What a workspace may import of the others. */
  const known: Record<string, readonly string[]> = {
    contract: [],
    sdk: ['contract'],
    worker: ['contract', 'sdk'],
    server: ['contract'],
    dashboard: ['contract'],
    cli: ['contract', 'sdk', 'server', 'worker'],
    testing: ['contract', 'sdk', 'server'],
  };

  test('workspaces know each other in one direction only', () => {
    const wrong = sources
      .filter((file) => /^[a-z]+\/src\//.test(file))
      .flatMap((file) => {
        const own = file.split('/')[0] ?? '';
        return importsOf(read(file))
          .map(({ from, line }) => ({ from, line, other: /^@punctual\/(\w+)/.exec(from)?.[1] }))
          .filter(({ other }) => other !== undefined && !known[own]?.includes(other))
          .map(({ from, line }) => `${file}:${line} imports ${from}`);
      });
    none(
      wrong,
      'contract knows nobody; sdk, server and dashboard know contract; worker knows contract and sdk; testing knows those and the server; only cli knows all.',
    );
  });

  test('a workspace reaches another through its package, never by a path', () => {
    const wrong = sources
      .filter((file) => /^[a-z]+\/src\//.test(file))
      .flatMap((file) => {
        const own = `${file.split('/')[0] ?? ''}${path.sep}`;
        return importsOf(read(file))
          .filter(({ from }) => from.startsWith('.') && !path.join(path.dirname(file), from).startsWith(own))
          .map(({ from, line }) => `${file}:${line} imports ${from}`);
      });
    none(wrong, 'Import @punctual/… instead of a path that leaves the workspace:');
  });

  test('the dashboard takes only types from the contract', () => {
    const wrong = shipped
      .filter((file) => file.startsWith('dashboard/src/'))
      .flatMap((file) =>
        importsOf(read(file))
          .filter(({ from, typeOnly }) => from === '@punctual/contract' && !typeOnly)
          .map(({ line }) => `${file}:${line}`),
      );
    none(wrong, 'Schemas would triple what a browser loads; write `import type`:');
  });

  test('testing takes only what decides from the server', () => {
    const wrong = shipped
      .filter((file) => file.startsWith('testing/src/'))
      .flatMap((file) =>
        importsOf(read(file))
          .filter(({ from }) => from.startsWith('@punctual/server'))
          .filter(({ from }) => !/^@punctual\/server\/internal\/(rules\/|api\/validation$)/.test(from))
          .map(({ from, line }) => `${file}:${line} imports ${from}`),
      );
    none(wrong, 'Applications load it in their tests: rules and the check of input only.');
  });

  test('relative imports name the file, with its ending', () => {
    const wrong = sources.flatMap((file) =>
      importsOf(read(file))
        .filter(({ from }) => from.startsWith('.') && !existsSync(path.join(root, path.dirname(file), from)))
        .map(({ from, line }) => `${file}:${line} imports ${from}`),
    );
    none(wrong, 'No such file; write the path with its .ts:');
  });
});

interface Use {
  what: string;
  pattern: RegExp;
  advice: string;
  /** Path prefixes that may, each with its reason. */
  allowed: Record<string, string>;
}

const uses: Use[] = [
  {
    what: 'SQL',
    pattern: /\bfrom 'pg'|\bsql`|\.query[<(]/,
    advice: 'SQL lives in server/src/store/, one function a statement; call that.',
    allowed: {
      'server/src/store/': 'the book',
      'server/src/embedded/session.ts': 'speaks with a PostgreSQL that has no schema of ours yet',
      'server/src/dispatch/announce.ts': 'LISTEN needs a connection of its own; it only asks whether that still lives',
      'sdk/src/worker/complete-in.ts': 'calls a function of the database in a transaction of the application',
    },
  },
  {
    what: 'the environment',
    pattern: /process\.env\b/,
    advice: 'The environment is read once, by server/src/config.ts; take a value of the configuration.',
    allowed: {
      'server/src/config.ts': 'the reader',
      'server/src/embedded/native.ts': 'PATH, to find the programs that start PostgreSQL',
      'sdk/src/worker/secrets.ts': 'secrets of a worker of an application, under names nobody knows before',
      'cli/src/environment.ts': 'colours, and what child processes inherit',
      'sdk/src/http/api-key.ts': 'the API key of an application that gave none, so that it need not stand in code',
      'worker/src/index.ts': 'PATH and the like, which programs of the shell executor expect',
    },
  },
  {
    what: 'console',
    pattern: /\bconsole\./,
    advice: 'The server logs through base/log.ts, the CLI prints through output.ts.',
    allowed: {},
  },
  {
    what: 'standard output and standard error',
    pattern: /process\.(stdout|stderr)\b/,
    advice: 'The server logs through base/log.ts, the CLI prints through output.ts.',
    allowed: {
      'cli/src/output.ts': 'the printer of the CLI',
      'cli/src/top/screen.ts': 'draws on the whole terminal',
      'sdk/src/worker/logger.ts': 'the default logger of an application that gave none',
    },
  },
  {
    what: 'the wall clock',
    pattern: /\bDate\.now\b|\bnew Date\(\)/,
    advice: 'What time it is, the database says; durations come from base/clock.ts.',
    allowed: {
      'server/src/base/clock.ts': 'until the database was heard',
      'server/src/base/database_clock.ts': 'tells by how much the machine is wrong',
      'server/src/store/connect.ts': 'compares the clocks of database and machine, for `punctual doctor`',
      'sdk/src/http/server-clock.ts': 'ids that the client makes bear the time of the server',
      'sdk/src/http/failure.ts': 'a Retry-After may be a date',
      'sdk/src/worker/run-clock.ts': 'stamps of log lines',
      'worker/src/executors/http-answer.ts': 'a Retry-After may be a date',
      'worker/src/executors/http.ts': 'a signature bears the time it was made at',
      'cli/src/time.ts': 'the clock of the CLI',
      'dashboard/src/live.ts': 'the clock of the dashboard',
    },
  },
  {
    what: 'the monotonic clock',
    pattern: /\bperformance\.now\b/,
    advice: 'Use monotonicMs of base/clock.ts.',
    allowed: {
      'server/src/base/clock.ts': 'the clock',
      'sdk/src/': 'leases, deadlines and pauses of a process that has no server',
      'cli/src/start/': 'keeps other processes alive and counts how long they lived',
      'testing/src/scheduler.ts': 'how long a handler keeps virtual time from passing',
    },
  },
  {
    what: 'randomness',
    pattern: /\bMath\.random\b|\brandom(UUID|Bytes|FillSync|Int)\b/,
    advice: 'Ids and tokens come from base/ids.ts, spreads from base/clock.ts.',
    allowed: {
      'server/src/base/': 'ids, tokens, spreads',
      'server/src/embedded/': 'a password, and names of folders in the making',
      'server/src/dispatch/submit.ts': 'servers begin their turns at different segments',
      'sdk/src/': 'idempotency keys, session ids, pauses that are spread',
    },
  },
  {
    what: 'a timeout among signals',
    pattern: /AbortSignal\.any\(.*AbortSignal\.timeout/,
    advice: 'Node 20 forgets that timeout when it tidies its memory up; use `deadline` of server/src/base/clock.ts.',
    allowed: {},
  },
  {
    what: 'timers',
    pattern: /\bset(Timeout|Interval|Immediate)\b/,
    advice: 'Background work goes through base/loop.ts, waits through base/clock.ts.',
    allowed: {
      'server/src/base/': 'the loop and the pause',
      'server/src/embedded/': 'waits for another process',
      'server/src/api/quick_door.ts': 'ends connections that stay idle',
      'server/src/dispatch/sync.ts': 'ends a call that waits',
      'server/src/dispatch/submit.ts': 'lets submits that arrived together share a statement',
      'server/src/dispatch/announce.ts': 'gathers announcements for some milliseconds',
      'sdk/src/': 'heartbeats, deadlines and pauses of a process that has no server',
      'worker/src/': 'grace between signals, and the type `sleep`',
      'testing/src/': 'turns of the event loop in which handlers work',
      'cli/src/start/': 'keeps other processes alive',
      'cli/src/telemetry.ts': 'waits a moment for the last spans',
      'cli/src/commands/start.ts': 'waits a moment for the built-in worker before the banner',
      'cli/src/watch.ts': 'looks again',
      'cli/src/top/screen.ts': 'waits for a key or the next frame',
      'dashboard/src/live.ts': 'asks again',
    },
  },
  {
    what: 'ending the process',
    pattern: /\bprocess\.exit\(/,
    advice: 'Throw: only the program decides when it ends.',
    allowed: {
      'cli/src/': 'the program',
      'sdk/src/worker/': 'an application asked for it with handleSignals or killOnLeaseLoss',
    },
  },
];

describe('only where it belongs:', () => {
  for (const { what, pattern, advice, allowed } of uses) {
    test(what, () => {
      const places = shipped.flatMap((file) => placesOf(file, pattern));
      const exceptions = Object.keys(allowed);
      none(
        places.filter((place) => !exceptions.some((prefix) => place.startsWith(prefix))),
        advice,
      );
      none(
        exceptions.filter((prefix) => !places.some((place) => place.startsWith(prefix))),
        `These exceptions for ${what} in test/tidy.test.ts are no longer needed; remove them:`,
      );
    });
  }
});

describe('files', () => {
  test('no file has a name that says nothing', () => {
    const banned = new Set(['util', 'utils', 'helper', 'helpers', 'common', 'misc', 'types', 'interfaces']);
    const allowed = 'worker/src/types/'; // the types of jobs: a word of this house
    const wrong = files.filter((file) =>
      file.split('/').some((step) => step.split(/[-_.]/).some((word) => banned.has(word))),
    );
    none(
      wrong.filter((file) => !file.startsWith(allowed)),
      'Name it for what it holds:',
    );
  });

  test('no file is longer than 500 lines', () => {
    // The schema is made from the catalogs, as a whole.
    const code = files.filter((file) => /\.(ts|tsx|mjs|js|sql)$/.test(file) && !file.endsWith('/schema.sql'));
    none(
      code
        .map((file) => ({ file, lines: read(file).split('\n').length - 1 }))
        .filter(({ lines }) => lines > 500)
        .map(({ file, lines }) => `${file}: ${lines}`),
      'Split it by noun:',
    );
  });

  test('every file of code opens with a comment: what it is, who calls it, what it promises', () => {
    const code = files.filter((file) => /\.(ts|tsx|mjs)$/.test(file));
    none(
      code.filter((file) => !/^(#!.*\n)?(\/\/|\/\*)/.test(read(file))),
      'Open it with one to six lines:',
    );
  });

  test('there are no default exports', () => {
    const allowed = 'dashboard/vite.config.ts'; // Vite reads it
    const wrong = sources.filter((file) => file !== allowed).flatMap((file) => placesOf(file, /^export default\b/));
    none(wrong, 'Export it by its name:');
  });

  test('every migration says why it exists, what it locks and whether older servers can still run', () => {
    const migrations = files.filter((file) => file.startsWith('server/src/store/migrations/') && file.endsWith('.sql'));
    const wrong = migrations.filter(
      (file) => !/^-- Why: [^\n]+\n(--[^\n]*\n)*?-- Locks: [^\n]+\n(--[^\n]*\n)*?-- Older servers: /.test(read(file)),
    );
    none(wrong, 'Open it with the three lines `-- Why:`, `-- Locks:`, `-- Older servers:`');
  });
});

describe('words', () => {
  const texts = files.filter((file) => !/\.(png|jpg|gif|ico|woff2?)$/.test(file) && file !== 'LICENSE');
  const search = (pattern: RegExp, among = texts): string[] =>
    among.flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, i) => (pattern.test(line) ? [`${file}:${i + 1} ${line.trim().slice(0, 100)}`] : [])),
    );

  // The brackets keep this file from finding itself.
  test('nothing is left for later in the code', () => {
    none(search(/\b(TO[D]O|FIX[M]E|X[X]X)\b/), 'Do it, or write down in docs/ what is not there yet:');
  });

  test('the code knows of no tickets', () => {
    none(search(/\bissue [#]\d*/i), 'Say why, not where it was discussed:');
  });

  test('no path of somebody’s machine and no package registry is written down', () => {
    none(
      search(/(^|[\s"'`(=:,])\/(work|root|home)(\/|[\s"'`),:]|$)/),
      'Take the path from where it is known, or from an argument:',
    );
    none(
      search(/\bregistry\.[a-z0-9-]+\.[a-z]+|"resolved": "https?:/i),
      'Where packages come from is the business of whoever installs them:',
    );
  });
});

describe('packages', () => {
  const manifests = files.filter((file) => /^([a-z]+\/)?package\.json$/.test(file));

  test('every dependency is pinned to one version', () => {
    const wrong = manifests.flatMap((file) => {
      const manifest = JSON.parse(read(file)) as Record<string, Record<string, string> | undefined>;
      return ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies', 'overrides'].flatMap(
        (kind) =>
          Object.entries(manifest[kind] ?? {})
            .filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
            .map(([name, version]) => `${file}: ${name} ${version}`),
      );
    });
    none(wrong, 'Pin it exactly:');
  });

  test('all workspaces have the same version, and need each other in that version', () => {
    const versions = new Set(manifests.map((file) => (JSON.parse(read(file)) as { version: string }).version));
    assert.equal(versions.size, 1, `There is one version, not ${[...versions].join(', ')}.`);
    const [version] = versions;
    const wrong = manifests.flatMap((file) => {
      const manifest = JSON.parse(read(file)) as Record<string, Record<string, string> | undefined>;
      return Object.entries({ ...manifest['dependencies'], ...manifest['devDependencies'] })
        .filter(([name, wanted]) => name.startsWith('@punctual/') && wanted !== version)
        .map(([name, wanted]) => `${file}: ${name} ${wanted}`);
    });
    none(wrong, `Write ${version}:`);
  });
});

describe('documents', () => {
  interface Link {
    file: string;
    line: number;
    text: string;
    target: string;
  }

  const links: Link[] = files
    .filter((file) => file.endsWith('.md'))
    .flatMap((file) =>
      read(file)
        .replace(/^```[\s\S]*?^```/gm, (block) => block.replace(/[^\n]/g, ''))
        .split('\n')
        .flatMap((line, i) =>
          [...line.matchAll(/\[([^\]]*)\]\(([^)\s]+)\)/g)].map((match) => ({
            file,
            line: i + 1,
            text: match[1] ?? '',
            target: match[2] ?? '',
          })),
        ),
    )
    .filter(({ target }) => !/^[a-z]+:/.test(target));

  const resolve = ({ file, target }: Link): { name: string; anchor: string | undefined } => {
    const [where = '', anchor] = target.split('#');
    return { name: where === '' ? file : path.join(path.dirname(file), where), anchor };
  };

  const anchorsOf = (name: string): Set<string> => {
    const text = read(name);
    const headings = [...text.matchAll(/^#+ (.+)$/gm)].map((match) =>
      (match[1] ?? '')
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    );
    return new Set([...headings, ...[...text.matchAll(/<a id="([^"]+)">/g)].map((match) => match[1] ?? '')]);
  };

  test('every link within the repository leads somewhere', () => {
    const wrong = links.filter((link) => {
      const { name, anchor } = resolve(link);
      if (!existsSync(path.join(root, name))) return true;
      return anchor !== undefined && name.endsWith('.md') && !anchorsOf(name).has(anchor);
    });
    none(
      wrong.map(({ file, line, target }) => `${file}:${line} ${target}`),
      'These links lead nowhere:',
    );
  });

  test('a promise is linked to a test of exactly that name', () => {
    const tests = links.filter(({ file, target }) => file === 'docs/guarantees.md' && target.endsWith('.test.ts'));
    assert.ok(tests.length > 0, 'docs/guarantees.md links no test');
    const wrong = tests.filter((link) => {
      const names = [...read(resolve(link).name).matchAll(/\b(?:test|it)\(\s*(['"`])(.*?)\1/g)].map(
        (match) => match[2],
      );
      return !names.includes(link.text);
    });
    none(
      wrong.map(({ line, text, target }) => `docs/guarantees.md:${line} “${text}” in ${target}`),
      'There is no such test:',
    );
  });
});

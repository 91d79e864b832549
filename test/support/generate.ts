// Documents made from the code: what they say and where they lie. scripts/docs.mjs writes them, test/generated.test.ts
// compares them with what is committed.
import { errorTable, type Route, routes } from '@punctual/contract';
import { configKeys } from '@punctual/server/config';
import { openMetrics } from '@punctual/server/internal/base/metrics';
import { noReadings } from '@punctual/server/internal/base/readings';
import { listMigrations } from '@punctual/server/internal/store/migrate';
import type pg from 'pg';
import { buildProgram } from 'punctual/internal/program';
import { cliDoc } from './cli_doc.ts';
import { dumpSchema } from './schema_dump.ts';

export interface GeneratedFile {
  /** From the root of the repository. */
  path: string;
  text: string;
}

export const checksumsPath = 'server/src/store/migrations/checksums.json';

/** Everything but the checksums, which only grow: see `checksumsOf`. */
export async function generateFiles(client: pg.ClientBase): Promise<GeneratedFile[]> {
  return [
    { path: 'docs/configuration.md', text: configurationDoc() },
    { path: 'docs/errors.md', text: errorsDoc() },
    { path: 'docs/metrics.md', text: metricsDoc() },
    { path: 'docs/cli.md', text: cliDoc(await buildProgram('all')) },
    { path: 'contract/src/paths.ts', text: pathsFile() },
    { path: 'server/src/store/schema.sql', text: schemaFile(await dumpSchema(client)) },
  ];
}

/** The committed checksums with those of new migrations added; a migration that is listed keeps the one it has. */
export function checksumsOf(committed: Record<string, string>): string {
  const all = listMigrations().map(({ name, checksum }) => [name, committed[name] ?? checksum] as const);
  return `${JSON.stringify(Object.fromEntries(all), null, 2)}\n`;
}

interface ConfigKey {
  env: string;
  kind: 'string' | 'secret' | 'integer' | 'boolean' | 'list';
  default: string | number | boolean | readonly string[] | null;
  meaning: string;
  min?: number;
  max?: number;
  oneOf?: readonly string[];
}

export function configurationDoc(keys: Record<string, ConfigKey> = configKeys): string {
  const rows = Object.values(keys).map((key) => [`\`${key.env}\``, valuesOf(key), defaultOf(key), key.meaning]);
  return `${notice('server/src/config.ts')}
# Configuration

Every setting is a variable of the environment, read once at the start. An unknown \`PUNCTUAL_\` variable or a value that
does not fit keeps the program from starting, with a sentence that says which and why. \`punctual config\` prints every
setting with its value, secrets hidden.

${table(['variable', 'values', 'default', 'meaning'], rows)}
`;
}

export function pathsFile(all: Record<string, Route> = routes): string {
  const lines = Object.entries(all).map(
    ([name, { method, path }]) => `  ${name}: { method: '${method}', path: '${path}' },`,
  );
  const doors = Object.entries(all).map(([name, { access }]) => {
    if (access === 'open') return `  ${name}: 'open',`;
    return `  ${name}: { role: '${access.role}', rows: '${access.rows}' },`;
  });
  return `// Made from the tables of routes by \`npm run docs\`: what plain.ts needs of them.
export const paths = {
${lines.join('\n')}
} as const;

/** Who may call each. */
export const doors = {
${doors.join('\n')}
} as const;
`;
}

export function errorsDoc(errors: Record<string, { status: number; meaning: string }> = errorTable): string {
  const rows = Object.entries(errors).map(([code, { status, meaning }]) => [
    `<a id="${code}"></a>\`${code}\``,
    String(status),
    meaning,
  ]);
  return `${notice('contract/src/errors.ts')}
# Errors

Every error of the API is \`application/problem+json\` (RFC 9457). Branch on \`code\`: codes are stable, words may change.
The SDK throws each of them as a \`PunctualError\` with the same code; the CLI prints the meaning.

${table(['code', 'status', 'meaning'], rows)}
`;
}

interface Metric {
  name: string;
  type: string;
  help: string;
  labelNames: readonly string[];
}

/** What GET /metrics offers. */
export function offeredMetrics(): Metric[] {
  // prom-client knows type and help of its metrics, though its types do not say so.
  return openMetrics(noReadings).registry.getMetricsAsArray() as unknown as Metric[];
}

export function metricsDoc(metrics: readonly Metric[] = offeredMetrics()): string {
  const rows = (isOurs: boolean): string[][] =>
    metrics
      .filter(({ name }) => name.startsWith('punctual_') === isOurs)
      .map(({ name, type, labelNames, help }) => [
        `\`${name}\``,
        type,
        labelNames.map((label) => `\`${label}\``).join(' '),
        help,
      ]);
  return `${notice('server/src/base/metrics.ts')}
# Metrics

\`GET /metrics\` of each server, in the text format of Prometheus. Where servers ask for API keys it needs one of the role
viewer. Scraping is cheap and never waits for more than a second: counters are memory, and figures of the whole house are read
at most every five seconds, only when somebody scrapes, by statements that stop at a bound. While the database does not answer,
the last figures stand and \`punctual_figures_age_seconds\` grows.

\`\`\`yaml
# prometheus.yml
scrape_configs:
  - job_name: punctual
    authorization: { credentials_file: /etc/prometheus/punctual.key }
    static_configs: [{ targets: ["server-1:7600", "server-2:7600"] }]
rule_files: [punctual-rules.yml] # ops/prometheus-rules.yml
\`\`\`

[ops/prometheus-rules.yml](../ops/prometheus-rules.yml) holds alert rules with what to do about each,
[ops/grafana-dashboard.json](../ops/grafana-dashboard.json) a dashboard to import into Grafana.

Counters and histograms count what this server did: add them up over servers. Figures that are the same on all servers are
those of the database: take their maximum. No label holds an id, a key or the name of a user. Names of queues and types are
values of labels for the first fifty, all others are \`other\`.

## Of Punctual

${table(['metric', 'kind', 'labels', 'meaning'], rows(true))}

## Of the process

Those of the library [prom-client](https://github.com/siimon/prom-client), on Linux.

${table(['metric', 'kind', 'labels', 'meaning'], rows(false))}
`;
}

function schemaFile(schema: string): string {
  return `-- The schema after all migrations, to be read; made by \`npm run docs\` from PostgreSQL's catalogs. Servers run the
-- files in migrations/, never this one. Partitions of single days are left out.

${schema}`;
}

function notice(source: string): string {
  return `<!-- Made from ${source} by \`npm run docs\`; change it there. -->`;
}

function valuesOf({ kind, min, max, oneOf }: ConfigKey): string {
  if (oneOf !== undefined) return oneOf.map((value) => `\`${value}\``).join(' ');
  if (kind === 'integer' && min !== undefined && max !== undefined) return `${min} … ${max}`;
  if (kind === 'boolean') return '`true` `false`';
  if (kind === 'list') return 'names, separated by commas';
  return kind === 'secret' ? 'text, hidden when printed' : 'text';
}

function defaultOf(key: ConfigKey): string {
  const text = Array.isArray(key.default) ? key.default.join(',') : String(key.default ?? '');
  return text === '' ? '' : `\`${text}\``;
}

function table(head: string[], rows: string[][]): string {
  const line = (cells: string[]): string => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

// `punctual doctor`: looks at everything that must be right and says what is not, how bad it is and how to mend it. It changes
// nothing. The database is examined by the server's own code; what is judged of settings stands in doctor_settings.ts.
import { existsSync, statfsSync } from 'node:fs';
import path from 'node:path';
import type { Finding } from '@punctual/server';
import type { Config } from '@punctual/server/config';
import type { Command } from 'commander';
import { diagnoseServerClock, diagnoseSettings } from '../doctor_settings.ts';
import { harmless, type Output } from '../output.ts';
import { type ClientSession, locally, type Session, withClient } from '../session.ts';
import { holderOf } from '../start/claim.ts';
import { shellSettings } from '../start/shell_settings.ts';
import { now } from '../time.ts';
import { neededNode, version as ownVersion } from '../version.ts';

/** Below this PostgreSQL may soon be unable to write its log, and then stops. */
const min_free_bytes = 512 * 1024 * 1024;
const low_free_bytes = 4 * min_free_bytes;

export function addDoctor(command: Command): void {
  command
    .addHelpText(
      'after',
      `
It looks at Node, the disk, with PUNCTUAL_ALLOW_SHELL how programs are kept apart, the server at PUNCTUAL_URL, and the database:
the one of DATABASE_URL, or the embedded one while \`punctual start\` runs. Of the database: rights, migrations, version and
settings, connections, what holds vacuum back, bloat, indexes, partitions, slow statements, clocks, and that the invariants
hold. Exit code 1 when something is wrong (✗); what should be looked at (!) does not change it.

Examples:
  punctual doctor
  punctual doctor --json | jq '.findings[] | select(.level != "ok")'`,
    )
    .action(locally(examineAll));
}

async function examineAll(session: Session): Promise<number> {
  const { config, output } = session;
  const folder = path.resolve(config.data_dir);
  const findings = [
    checkNode(process.versions.node),
    checkDisk(folder),
    ...(config.allow_shell || config.allow_binary ? [await checkShell(config)] : []),
    ...(await checkServer(session)),
    ...(await checkDatabase(config, folder)),
  ];
  const ok = findings.every(({ level }) => level !== 'error');
  const told = findings.map((finding) => ({ ...finding, ok: finding.level !== 'error' }));
  if (output.asJson) output.json({ ok, findings: told });
  else print(output, findings);
  return ok ? 0 : 1;
}

const marks = { ok: ['green', '✓'], warning: ['yellow', '!'], error: ['red', '✗'] } as const;

function print({ line, paint }: Output, findings: readonly Finding[]): void {
  for (const { check, level, detail, hint } of findings) {
    const [style, mark] = marks[level];
    line(`${paint(style, mark)} ${check}: ${harmless(detail)}`);
    if (hint !== undefined && level !== 'ok') line(`    ${paint('yellow', harmless(hint))}`);
  }
  const count = (level: Finding['level']): number => findings.filter((one) => one.level === level).length;
  const [wrong, doubtful] = [count('error'), count('warning')];
  line();
  if (wrong + doubtful === 0) line('all is well');
  else
    line(
      `${findings.length} findings: ${wrong} say that something is wrong, ${doubtful} that something should be looked at`,
    );
}

export function checkNode(version: string): Finding {
  const needed = neededNode();
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [leastMajor = 0, leastMinor = 0] = needed.split('.').map(Number);
  const ok = major > leastMajor || (major === leastMajor && minor >= leastMinor);
  const hint = `Punctual needs Node ${needed} or newer.`;
  return { check: 'node', level: ok ? 'ok' : 'error', detail: `version ${version}`, hint };
}

export function checkDisk(folder: string): Finding {
  let place = folder;
  while (!existsSync(place) && path.dirname(place) !== place) place = path.dirname(place);
  const { bavail, bsize } = statfsSync(place);
  const free = bavail * bsize;
  const detail = `${(free / 1024 ** 3).toFixed(1)} GB free for ${folder}`;
  return {
    check: 'disk',
    level: free < min_free_bytes ? 'error' : free < low_free_bytes ? 'warning' : 'ok',
    detail,
    hint: 'Make room, or choose another folder with PUNCTUAL_DATA_DIR.',
  };
}

/** How far this machine lets programs be kept apart; what it does not let is said, and is no failure. */
export async function checkShell(config: Config): Promise<Finding> {
  const { describeIsolation, probeIsolation } = await import('@punctual/worker');
  try {
    const { summary, gaps } = describeIsolation(await probeIsolation(shellSettings(config), false));
    return { check: 'shell jobs', level: 'ok', detail: [summary, ...gaps].join('\n    ') };
  } catch (error) {
    return { check: 'shell jobs', level: 'error', detail: (error as Error).message };
  }
}

async function checkServer(session: Session): Promise<Finding[]> {
  try {
    return await withClient(session, askServer);
  } catch (error) {
    const hint = 'Start one with `punctual start`, or set PUNCTUAL_URL.';
    return [{ check: 'server', level: 'error', detail: (error as Error).message, hint }];
  }
}

async function askServer({ client, url }: ClientSession): Promise<Finding[]> {
  const { server_id, version, database } = await client.ready();
  const same = version === ownVersion();
  const found: Finding = {
    check: 'server',
    level: same ? 'ok' : 'warning',
    detail: `${url} is ready: ${server_id}, version ${version}, PostgreSQL ${database}`,
    hint: `This program is version ${ownVersion()}: use the one of the server.`,
  };
  const { headers } = await fetch(new URL('healthz', url.endsWith('/') ? url : `${url}/`));
  const clock = diagnoseServerClock(headers.get('date'), now());
  // Only admins may read them; for others they stay unknown.
  const answer = await client.settings().catch(() => null);
  const settings = new Map(answer?.settings.map(({ key, value }) => [key, value]));
  return [found, clock, ...(answer === null ? [] : diagnoseSettings(settings))];
}

async function checkDatabase(config: Config, folder: string): Promise<Finding[]> {
  const { examine } = await import('@punctual/server');
  if (config.database_url !== null) return await examine(config, { databaseUrl: config.database_url });
  if (holderOf(folder) === null) {
    const hint = 'Start it with `punctual start`, or set DATABASE_URL.';
    return [
      {
        check: 'database',
        level: 'error',
        detail: `DATABASE_URL is not set, and no \`punctual start\` runs in ${folder}`,
        hint,
      },
    ];
  }
  const { startEmbedded } = await import('@punctual/server/embedded');
  await using postgres = await startEmbedded({ dataDir: path.join(folder, 'postgres') });
  return await examine(config, { databaseUrl: postgres.url });
}

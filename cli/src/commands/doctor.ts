// `punctual doctor`: looks at everything that must be right and says what is not. It changes nothing.
import { existsSync, statfsSync } from 'node:fs';
import path from 'node:path';
import type { Finding } from '@punctual/server';
import type { Config } from '@punctual/server/config';
import type { Command } from 'commander';
import type { Output } from '../output.ts';
import { locally, type Session } from '../session.ts';
import { holderOf } from '../start/claim.ts';
import { shellSettings } from '../start/shell_settings.ts';
import { neededNode } from '../version.ts';

/** Below this PostgreSQL may soon be unable to write its log, and then stops. */
const min_free_bytes = 512 * 1024 * 1024;

export function addDoctor(command: Command): void {
  command
    .addHelpText(
      'after',
      `
It looks at Node, the disk, with PUNCTUAL_ALLOW_SHELL how programs are kept apart, the server at PUNCTUAL_URL, and the database: the one of DATABASE_URL, or the embedded one
while \`punctual start\` runs. Exit code 1 when something is wrong.`,
    )
    .action(locally(examineAll));
}

async function examineAll(session: Session): Promise<number> {
  const { config, output, url } = session;
  const folder = path.resolve(config.data_dir);
  const findings = [
    checkNode(process.versions.node),
    checkDisk(folder),
    ...(config.allow_shell || config.allow_binary ? [await checkShell(config)] : []),
    await checkServer(url),
    ...(await checkDatabase(config, folder)),
  ];
  const ok = findings.every((finding) => finding.ok);
  if (output.asJson) output.json({ ok, findings });
  else print(output, findings);
  return ok ? 0 : 1;
}

function print({ line, paint }: Output, findings: readonly Finding[]): void {
  for (const { check, ok, detail, hint } of findings) {
    line(`${ok ? paint('green', '✓') : paint('red', '✗')} ${check}: ${detail}`);
    if (!ok && hint !== undefined) line(`    ${paint('yellow', hint)}`);
  }
  const wrong = findings.filter(({ ok }) => !ok).length;
  line();
  line(wrong === 0 ? 'all is well' : `${wrong} of ${findings.length} checks found something wrong`);
}

export function checkNode(version: string): Finding {
  const needed = neededNode();
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [leastMajor = 0, leastMinor = 0] = needed.split('.').map(Number);
  const ok = major > leastMajor || (major === leastMajor && minor >= leastMinor);
  return { check: 'node', ok, detail: `version ${version}`, hint: `Punctual needs Node ${needed} or newer.` };
}

export function checkDisk(folder: string): Finding {
  let place = folder;
  while (!existsSync(place) && path.dirname(place) !== place) place = path.dirname(place);
  const { bavail, bsize } = statfsSync(place);
  const free = bavail * bsize;
  const detail = `${(free / 1024 ** 3).toFixed(1)} GB free for ${folder}`;
  return {
    check: 'disk',
    ok: free >= min_free_bytes,
    detail,
    hint: 'Make room, or choose another folder with PUNCTUAL_DATA_DIR.',
  };
}

/** How far this machine lets programs be kept apart; what it does not let is said, and is no failure. */
export async function checkShell(config: Config): Promise<Finding> {
  const { describeIsolation, probeIsolation } = await import('@punctual/worker');
  try {
    const { summary, gaps } = describeIsolation(await probeIsolation(shellSettings(config), false));
    return { check: 'shell jobs', ok: true, detail: [summary, ...gaps].join('\n    ') };
  } catch (error) {
    return { check: 'shell jobs', ok: false, detail: (error as Error).message };
  }
}

async function checkServer(url: string): Promise<Finding> {
  const { Client } = await import('@punctual/sdk');
  try {
    const client = new Client({ url, retries: 0, timeoutMs: 5_000 });
    try {
      const { server_id, version, database } = await client.ready();
      return {
        check: 'server',
        ok: true,
        detail: `${url} is ready: ${server_id}, version ${version}, PostgreSQL ${database}`,
      };
    } finally {
      client.close();
    }
  } catch (error) {
    return {
      check: 'server',
      ok: false,
      detail: (error as Error).message,
      hint: 'Start one with `punctual start`, or set PUNCTUAL_URL.',
    };
  }
}

async function checkDatabase(config: Config, folder: string): Promise<Finding[]> {
  const { examine } = await import('@punctual/server');
  if (config.database_url !== null) return await examine(config, { databaseUrl: config.database_url });
  if (holderOf(folder) === null) {
    const hint = 'Start it with `punctual start`, or set DATABASE_URL.';
    return [
      {
        check: 'database',
        ok: false,
        detail: `DATABASE_URL is not set, and no \`punctual start\` runs in ${folder}`,
        hint,
      },
    ];
  }
  const { startEmbedded } = await import('@punctual/server/embedded');
  await using postgres = await startEmbedded({ dataDir: path.join(folder, 'postgres') });
  return await examine(config, { databaseUrl: postgres.url });
}

// `punctual artifacts …`: upload files, see them, get them back, and see how far that is.
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { type Artifact, ArtifactPageQuery, type RunArtifact } from '@punctual/contract';
import type { ArtifactSource } from '@punctual/sdk';
import type { Command } from 'commander';
import { eachId } from '../each.ts';
import { CliError } from '../failure.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import { harmless, oneLine } from '../output.ts';
import { printPage } from '../pages.ts';
import { partOf, showBytes } from '../progress.ts';
import { type ClientSession, remotely } from '../session.ts';
import { now, showRelative, showTime } from '../time.ts';

const pageFlags = flagsFrom(ArtifactPageQuery.properties, Object.keys(ArtifactPageQuery.properties));
const max_name_chars = 60;

export function addArtifacts(artifacts: Command): void {
  artifacts
    .command('upload')
    .description('Upload a file, or go on with an upload that was cut off')
    .argument('<file>', 'The file; - for standard input')
    .option('--name <name>', 'What to call it; as the file is called unless given')
    .option('--content-type <type>', 'Its media type, such as text/plain')
    .addHelpText(
      'after',
      `
Examples:
  punctual artifacts upload ./backup-tool
  punctual jobs create --binary $(punctual artifacts upload ./backup-tool) -- --all`,
    )
    .action(remotely(upload));
  const listing = artifacts
    .command('list')
    .description('List artifacts, newest first; or the files that a run published')
    .option('--run <id>', 'Those of this run');
  for (const { option } of pageFlags) listing.addOption(option);
  listing.action(remotely(list));
  artifacts
    .command('get')
    .description('Show an artifact')
    .argument('<sha256>', 'The SHA-256 of its content')
    .action(remotely(get));
  artifacts
    .command('download')
    .description('Save the content of an artifact')
    .argument('<sha256>', 'The SHA-256 of its content')
    .option('-o, --output <file>', 'Where to; a file of its name in this folder unless given')
    .option('--force', 'Replace a file that is there')
    .action(remotely(download));
  artifacts
    .command('delete')
    .description('Delete artifacts that no live or recurring job needs')
    .argument('<sha256...>', 'One or more')
    .action(remotely(remove));
}

async function upload(
  { client, output }: ClientSession,
  file: string,
  given: { name?: string; contentType?: string },
): Promise<void> {
  const source: ArtifactSource = file === '-' ? process.stdin : file;
  let artifact: Artifact;
  try {
    artifact = await client.artifacts.upload(source, {
      ...given,
      onProgress: (sent, size) => output.progress(bytesWords(sent, size), partOf(sent, size)),
    });
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    if (syscall !== undefined) throw new CliError(`${file} cannot be read (${code}).`, { cause: error });
    throw error;
  } finally {
    output.progress(null);
  }
  if (output.asJson) return output.json(artifact);
  // The hash alone, so that it can stand in another command.
  output.line(artifact.sha256);
}

async function list({ client, output }: ClientSession, given: Record<string, unknown>): Promise<void> {
  const run = given['run'] as string | undefined;
  if (run !== undefined) {
    const page = await client.runs.artifacts(run);
    return printPage<RunArtifact>({ ...page, next_cursor: null }, page.artifacts, {
      output,
      head: ['NAME', 'SIZE', 'ATTEMPT', 'SHA256'],
      row: (one) => [
        oneLine(one.name, max_name_chars),
        showBytes(one.size),
        String(one.attempt_number),
        one.available ? one.sha256 : `${one.sha256} (deleted)`,
      ],
      none: 'the run published no files',
      more: '',
    });
  }
  const page = await client.artifacts.list(valuesOf(pageFlags, given));
  printPage(page, page.artifacts, {
    output,
    head: ['SHA256', 'SIZE', 'NAME', 'CREATED'],
    row: (one, _paint, at) => [
      one.sha256,
      showBytes(one.size),
      oneLine(one.name ?? '–', max_name_chars),
      showRelative(Date.parse(one.created_at), at),
    ],
    none: 'no artifacts',
    more: 'punctual artifacts list',
  });
}

async function get({ client, output }: ClientSession, sha256: string): Promise<void> {
  const artifact = await client.artifacts.get(sha256);
  if (output.asJson) return output.json(artifact);
  output.fields([
    ['sha256', artifact.sha256],
    ['size', `${showBytes(artifact.size)} (${artifact.size} bytes)`],
    ['name', harmless(artifact.name ?? '–')],
    ['content type', artifact.content_type ?? '–'],
    ['created', showTime(artifact.created_at, now())],
    ['used', showTime(artifact.used_at, now())],
  ]);
}

async function download(
  { client, output }: ClientSession,
  sha256: string,
  given: { output?: string; force?: boolean },
): Promise<void> {
  const { name, size } = await client.artifacts.get(sha256);
  // Only the last step of its name: where files go, people decide here.
  const path = given.output ?? basename(name ?? sha256);
  if (given.force !== true && existsSync(path))
    throw new CliError(`${harmless(path)} is there already; --force replaces it, --output names another file.`);
  const onProgress = (got: number): void => output.progress(bytesWords(got, size), partOf(got, size));
  await client.artifacts.download(sha256, path, { onProgress }).finally(() => output.progress(null));
  if (output.asJson) output.json({ sha256, path });
  else output.line(harmless(path));
}

function bytesWords(done: number, all: number): string {
  return `${showBytes(done)} of ${showBytes(all)}`;
}

async function remove(session: ClientSession, hashes: string[]): Promise<number> {
  return eachId(session, hashes, {
    noun: 'artifact',
    act: (sha256) => session.client.artifacts.delete(sha256),
    tell: ({ sha256 }) => `artifact ${sha256} is deleted`,
  });
}

// Artifacts at the door.
import { Readable } from 'node:stream';
import { artifactRoutes, defaults, PunctualError } from '@punctual/contract';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { isSignedBy } from '../artifacts/addresses.ts';
import { shown } from '../artifacts/artifacts.ts';
import { wrongSize } from '../artifacts/disk.ts';
import { disposition } from '../artifacts/disposition.ts';
import type { ArtifactStore } from '../artifacts/store.ts';
import { kindOf, segmentOf } from '../base/ids.ts';
import { sizeOfPart } from '../rules/parts.ts';
import { readRange } from '../rules/range.ts';
import { getArtifact, listArtifacts, type StoredArtifact } from '../store/artifacts.ts';
import { listRunArtifacts, publishArtifact } from '../store/run_artifacts.ts';
import { getRun } from '../store/runs.ts';
import { makeCursor, readCursor } from './cursor.ts';
import { register, streamed } from './register.ts';
import type { ApiParts } from './server.ts';

const placeShape = /^\d{1,18} [0-9a-f]{64}$/;

export function registerArtifacts(app: FastifyInstance, parts: ApiParts): void {
  const { db, segments, allSegments, artifacts, filesSoon } = parts;
  const requireArtifact = async (sha256: string): Promise<StoredArtifact> => {
    const artifact = await getArtifact(db, sha256, segments);
    if (artifact === null) throw notFound(sha256);
    return artifact;
  };

  register(app, artifactRoutes.createArtifact, ({ body }) => artifacts.create(body));
  register(app, artifactRoutes.completeArtifact, async ({ params }) => shown(await artifacts.complete(params.sha256)));
  register(app, artifactRoutes.getArtifact, async ({ params }) => shown(await requireArtifact(params.sha256)));

  register(app, artifactRoutes.listArtifacts, async ({ query: { limit = defaults.page, cursor } }) => {
    const [created = '', sha256 = ''] = readCursor(cursor, {}, placeShape)?.split(' ') ?? [];
    const after = cursor === undefined ? null : { created, sha256 };
    const found = await listArtifacts(db, { after, limit: limit + 1, segments: allSegments });
    const last = found.length > limit ? found[limit - 1] : undefined;
    return {
      artifacts: found.slice(0, limit).map(shown),
      next_cursor: last === undefined ? null : makeCursor(`${last.created} ${last.sha256}`, {}),
    };
  });

  register(app, artifactRoutes.getArtifactContent, async ({ params, request, reply }) =>
    sendContent(artifacts.store, await requireArtifact(params.sha256), request, reply),
  );

  register(app, artifactRoutes.deleteArtifact, async ({ params: { sha256 } }) => {
    if (!(await artifacts.delete(sha256))) throw notFound(sha256);
    filesSoon();
    return { sha256 };
  });

  const requireRun = async (runId: string): Promise<void> => {
    const run = isRunId(runId, segments) ? await getRun(db, runId) : null;
    if (run === null) throw new PunctualError('run_not_found', { detail: `No run has the id ${runId}.` });
  };

  register(app, artifactRoutes.publishArtifact, async ({ params: { run_id }, body }) => {
    const published = isRunId(run_id, segments) ? await publishArtifact(db, run_id, body, segments) : null;
    if (published !== null) return published;
    await requireRun(run_id);
    throw new PunctualError('lease_lost');
  });

  register(app, artifactRoutes.listRunArtifacts, async ({ params: { run_id } }) => {
    await requireRun(run_id);
    return { artifacts: await listRunArtifacts(db, run_id) };
  });

  // Bytes come as they are, so this route has a reader of bodies of its own: none at all.
  void app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
    registerParts(scope, parts);
  });
}

function registerParts(app: FastifyInstance, { artifacts, secret }: ApiParts): void {
  register(app, artifactRoutes.sendArtifactPart, async ({ params: { sha256, part }, query, request }) => {
    const { receive } = artifacts.store;
    if (receive === null)
      throw new PunctualError('route_not_found', { detail: 'Parts are sent to S3 and not to this server.' });
    const { upload: upload_id, expires, signature } = query;
    if (!isSignedBy(await secret(), { sha256, upload_id, part, expires }, signature))
      throw new PunctualError('invalid_signature');
    const upload = await artifacts.upload(sha256);
    if (upload.now_seconds > expires) throw new PunctualError('invalid_signature', { detail: 'It has expired.' });
    if (upload.upload_id !== upload_id) throw new PunctualError('upload_not_found');
    const size = sizeOfPart(upload, part);
    const announced = request.headers['content-length'];
    if (announced !== undefined && Number(announced) !== size) throw wrongSize(size, announced);
    const body = request.body instanceof Readable ? request.body : Readable.from([]);
    await receive(upload, part, body, size);
    return { part, size };
  });
}

async function sendContent(
  store: ArtifactStore,
  artifact: StoredArtifact,
  { headers }: FastifyRequest,
  reply: FastifyReply,
): Promise<typeof streamed> {
  const { size, sha256, name, content_type } = artifact;
  const etag = `"${sha256}"`;
  const download = { name: name ?? sha256, contentType: content_type ?? 'application/octet-stream' };
  reply.header('etag', etag).header('cache-control', 'private, no-cache').header('accept-ranges', 'bytes');
  if (headers['if-none-match']?.split(/\s*,\s*/).includes(etag) === true) {
    reply.code(304).send();
    return streamed;
  }
  const range = [undefined, etag].includes(headers['if-range'] as string | undefined)
    ? readRange(headers.range, size)
    : null;
  if (range === 'unsatisfiable') {
    reply.code(416).header('content-range', `bytes */${size}`).send();
    return streamed;
  }
  const content = await store.read(artifact, range, download);
  if (!(content instanceof Readable)) {
    reply.code(307).header('location', content.location).header('cache-control', 'no-store').send();
    return streamed;
  }
  if (range !== null) reply.code(206).header('content-range', `bytes ${range.from}-${range.to}/${size}`);
  reply
    .header('content-type', download.contentType)
    .header('content-length', String(range === null ? size : range.to - range.from + 1))
    .header('content-disposition', disposition(download.name))
    .header('content-security-policy', "sandbox; default-src 'none'")
    .send(content);
  return streamed;
}

function isRunId(id: string, segments: number): boolean {
  return kindOf(id)?.endsWith('run') === true && segmentOf(id) < segments;
}

function notFound(sha256: string): PunctualError {
  return new PunctualError('artifact_not_found', { detail: `No artifact has the sha256 ${sha256}.` });
}

// Artifacts: files by the hash of their content. Programs that jobs run, and files that runs publish. Schemas and routes.
import type { Static } from 'typebox';
import { limits } from './limits.ts';
import { route } from './route.ts';
import { closed, described, Id, NextCursor, nullable, PageQuery, Sha256, Timestamp } from './shapes.ts';
import { Type } from './type.ts';

/** A step of a path: not empty, not `.` or `..`. */
const step = '(?!\\.{1,2}(?:/|$))[^/\\\\\\p{Cc}\\p{Cs}]+';

export const FileName = Type.String({
  minLength: 1,
  maxLength: limits.max_file_name_chars,
  pattern: `^${step}(?:/${step})*$`,
  description:
    'The name of a file, such as report.pdf or 2030/report.pdf: no `..`, no backslash, no control characters, not beginning or ending with a slash',
});

const ContentType = Type.String({
  maxLength: limits.max_content_type_chars,
  pattern: '^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?:; ?[A-Za-z0-9-]+=[A-Za-z0-9_.+-]+)*$',
  description: 'A media type, such as text/plain; charset=utf-8',
});

const Size = Type.Integer({ minimum: 0, maximum: limits.max_artifact_bytes, description: 'In bytes' });

export const CreateArtifact = closed(
  {
    sha256: Sha256,
    size: Size,
    name: Type.Optional(described(FileName, { description: 'What to call it; the first name it was given stays' })),
    content_type: Type.Optional(ContentType),
  },
  { description: 'A file that is to be uploaded, by its content' },
);
export type CreateArtifact = Static<typeof CreateArtifact>;

export const Artifact = Type.Object(
  {
    sha256: Sha256,
    size: Size,
    name: nullable(Type.String()),
    content_type: nullable(Type.String()),
    created_at: Timestamp,
    used_at: described(Timestamp, {
      description: 'When it was uploaded, asked for by an upload, or lost a reference last: retention counts from here',
    }),
  },
  { description: 'A stored file' },
);
export type Artifact = Static<typeof Artifact>;

export const PartAddress = Type.Object(
  {
    part: Type.Integer({ description: 'From 1' }),
    size: Type.Integer({ description: 'Bytes of this part' }),
    method: Type.Literal('PUT'),
    url: Type.String({ description: 'Where to send its bytes; one that begins with a slash is of the server asked' }),
    headers: Type.Record(Type.String(), Type.String(), { description: 'To be sent along' }),
    expires_at: Timestamp,
  },
  { description: 'Where to send a part of a file. Whoever has the address can; sending it again replaces the part' },
);
export type PartAddress = Static<typeof PartAddress>;

export const Upload = Type.Object(
  {
    upload_id: Id,
    sha256: Sha256,
    size: Size,
    part_bytes: Type.Integer({ description: 'Bytes of every part but the last' }),
    parts: Type.Integer({ description: 'How many there are; an empty file has none' }),
    stored: Type.Array(Type.Integer(), { description: 'The parts that are there' }),
    missing: Type.Array(PartAddress, {
      description: `Where to send parts that are not there, at most ${limits.max_part_addresses}; asking again gives the next`,
    }),
    expires_at: described(Timestamp, { description: 'What was sent is removed then, unless it is asked for again' }),
  },
  { description: 'A file on its way' },
);
export type Upload = Static<typeof Upload>;

export const ArtifactOrUpload = Type.Object(
  { artifact: nullable(Artifact), upload: nullable(Upload) },
  { description: 'The artifact, when it is there already; else how to upload it' },
);
export type ArtifactOrUpload = Static<typeof ArtifactOrUpload>;

export const PublishArtifact = closed(
  { lease_id: Id, name: FileName, sha256: Sha256 },
  { description: 'A file that a run publishes; its content was uploaded before' },
);
export type PublishArtifact = Static<typeof PublishArtifact>;

export const RunArtifact = Type.Object(
  {
    run_id: Id,
    name: Type.String(),
    sha256: Sha256,
    size: Size,
    attempt_number: Type.Integer({ description: 'The attempt that published it' }),
    published_at: Timestamp,
    available: Type.Boolean({ description: 'false: somebody has deleted the artifact since' }),
  },
  { description: 'A file that a run published' },
);
export type RunArtifact = Static<typeof RunArtifact>;

export const ArtifactPageQuery = closed(PageQuery);
export type ArtifactPageQuery = Static<typeof ArtifactPageQuery>;

export const ArtifactPage = Type.Object({ artifacts: Type.Array(Artifact), next_cursor: NextCursor });
export type ArtifactPage = Static<typeof ArtifactPage>;

const Params = closed({ sha256: Sha256 });
const RunParams = closed({ run_id: Id });
const example = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08';

export const artifactRoutes = {
  createArtifact: route({
    method: 'POST',
    path: '/artifacts',
    operation: 'createArtifact',
    access: { role: 'submitter', rows: 'shared', workers: true },
    tag: 'artifacts',
    summary: 'Begin or resume the upload of a file',
    description:
      'Answers the artifact when the file is there already. Else the same call, repeated, says which parts have arrived and where to send the others; then POST /artifacts/{sha256}/complete.',
    body: CreateArtifact,
    success: 200,
    response: ArtifactOrUpload,
    errors: [
      'invalid_json',
      'invalid_input',
      'artifact_too_large',
      'artifact_mismatch',
      'too_many_uploads',
      'storage_unavailable',
    ],
    example: { sha256: example, size: 4, name: 'hello.txt', content_type: 'text/plain' },
  }),
  sendArtifactPart: route({
    method: 'PUT',
    path: '/artifacts/{sha256}/parts/{part}',
    operation: 'sendArtifactPart',
    access: 'open',
    tag: 'artifacts',
    summary: 'Send a part of a file, to an address that the begin of the upload gave',
    description: 'The body is the bytes of the part as they are. Sending it again replaces it.',
    params: closed({
      sha256: Sha256,
      part: Type.Integer({ minimum: 1, maximum: limits.max_artifact_parts }),
    }),
    query: closed({
      upload: Id,
      expires: Type.Integer({ minimum: 0, description: 'Seconds since 1970' }),
      signature: Type.String({ pattern: '^[0-9a-f]{64}$', description: 'Binds method, hash, part and time' }),
    }),
    bytes: 'body',
    success: 200,
    response: Type.Object({ part: Type.Integer(), size: Type.Integer() }),
    errors: [
      'invalid_id',
      'invalid_input',
      'invalid_signature',
      'upload_not_found',
      'artifact_mismatch',
      'storage_unavailable',
    ],
  }),
  completeArtifact: route({
    method: 'POST',
    path: '/artifacts/{sha256}/complete',
    operation: 'completeArtifact',
    access: { role: 'submitter', rows: 'shared', workers: true },
    tag: 'artifacts',
    summary: 'Make an artifact of the parts that were sent',
    description:
      'Size and SHA-256 are verified first: what does not fit is refused, and nothing of it is kept. Completing again answers the artifact.',
    params: Params,
    success: 200,
    response: Artifact,
    errors: ['invalid_id', 'upload_not_found', 'upload_incomplete', 'artifact_mismatch', 'storage_unavailable'],
  }),
  listArtifacts: route({
    method: 'GET',
    path: '/artifacts',
    operation: 'listArtifacts',
    access: { role: 'viewer', rows: 'all' },
    tag: 'artifacts',
    summary: 'All artifacts, newest first',
    query: ArtifactPageQuery,
    success: 200,
    response: ArtifactPage,
    errors: ['invalid_input', 'invalid_cursor'],
  }),
  getArtifact: route({
    method: 'GET',
    path: '/artifacts/{sha256}',
    operation: 'getArtifact',
    access: { role: 'viewer', rows: 'shared', workers: true },
    tag: 'artifacts',
    summary: 'One artifact, without its content',
    params: Params,
    success: 200,
    response: Artifact,
    errors: ['invalid_id', 'artifact_not_found'],
  }),
  getArtifactContent: route({
    method: 'GET',
    path: '/artifacts/{sha256}/content',
    operation: 'getArtifactContent',
    access: { role: 'viewer', rows: 'shared', workers: true },
    tag: 'artifacts',
    summary: 'The content of an artifact, or a part of it',
    description:
      'Knows Range, If-Range and If-None-Match. With S3 the answer is 307 with an address that expires soon.',
    params: Params,
    bytes: 'answer',
    success: 200,
    response: Type.Unknown(),
    errors: ['invalid_id', 'artifact_not_found', 'storage_unavailable'],
  }),
  deleteArtifact: route({
    method: 'DELETE',
    path: '/artifacts/{sha256}',
    operation: 'deleteArtifact',
    access: { role: 'operator', rows: 'all' },
    audit: 'artifact',
    tag: 'artifacts',
    summary: 'Delete an artifact that no live or recurring job needs',
    params: Params,
    success: 200,
    response: Type.Object({ sha256: Sha256 }),
    errors: ['invalid_id', 'artifact_not_found', 'artifact_in_use'],
  }),
  publishArtifact: route({
    method: 'POST',
    path: '/runs/{run_id}/artifacts',
    operation: 'publishArtifact',
    access: { role: 'worker', rows: 'all' },
    tag: 'artifacts',
    summary: 'Publish a file of a run that runs; for its worker',
    description: 'A name that the run published before is replaced.',
    params: RunParams,
    body: PublishArtifact,
    success: 201,
    response: RunArtifact,
    errors: [
      'invalid_id',
      'invalid_json',
      'invalid_input',
      'run_not_found',
      'lease_lost',
      'artifact_not_found',
      'too_many_artifacts',
    ],
    example: { lease_id: '01970000-0000-7000-8000-000000000002', name: 'report.pdf', sha256: example },
  }),
  listRunArtifacts: route({
    method: 'GET',
    path: '/runs/{run_id}/artifacts',
    operation: 'listRunArtifacts',
    access: { role: 'viewer', rows: 'own' },
    tag: 'artifacts',
    summary: 'The files that a run published, by name',
    params: RunParams,
    success: 200,
    response: Type.Object({ artifacts: Type.Array(RunArtifact) }),
    errors: ['invalid_id', 'run_not_found'],
  }),
} as const;

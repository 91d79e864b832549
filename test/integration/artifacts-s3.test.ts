// Artifacts in S3, over a real server and a service on loopback that verifies every signature with a signer of its own
// (support/s3.ts).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Artifact, Upload } from '@punctual/contract';
import { startServer } from '@punctual/server';
import { type FileHouse, fresh, mb, openFiles, sha256Of, slowFile } from '../support/files.ts';
import { openS3, type S3 } from '../support/s3.ts';

let s3: S3;
let files: FileHouse;
before(async () => {
  s3 = await openS3();
  files = await openFiles({ servers: 2, config: { ...s3.config, artifacts_max_mb: 64 } });
});
after(async () => {
  await files[Symbol.asyncDispose]();
  await s3[Symbol.asyncDispose]();
});

const partBytes = 5 * mb;
const keysOf = (sha256: string): string[] => [...s3.objects.keys()].filter((key) => key.includes(sha256));

async function begun(content: Buffer, server = 0): Promise<Upload> {
  const { upload } = await files.begin(content, {}, server);
  assert.ok(upload !== null);
  return upload;
}

/** As any client does it: plain requests, nothing signed by it. */
async function put(upload: Upload, part: number, bytes: Uint8Array): Promise<number> {
  const address = upload.missing.find((one) => one.part === part);
  const { url = '', method = '', headers = {} } = address ?? {};
  const response = await fetch(url, { method, headers, body: bytes });
  await response.arrayBuffer();
  return response.status;
}

test('a file goes to S3 in parts and back without passing through the server', async () => {
  const content = fresh(partBytes + 100);
  const { artifacts } = files.house.client;
  const made = await artifacts.upload(content, { name: 'große datei.bin', contentType: 'application/x-thing' });
  assert.equal(made.sha256, sha256Of(content));
  assert.equal(s3.uploads.size, 0);
  const [key = ''] = keysOf(made.sha256);
  assert.match(key, new RegExp(`^some/prefix/${made.sha256}\\.`));
  const redirect = await fetch(`${files.house.url}/artifacts/${made.sha256}/content`, { redirect: 'manual' });
  assert.equal(redirect.status, 307);
  const location = redirect.headers.get('location') ?? '';
  assert.ok(location.startsWith(`${s3.config.s3_endpoint}/files/`));
  const direct = await fetch(location);
  assert.equal(sha256Of(Buffer.from(await direct.arrayBuffer())), made.sha256);
  assert.equal(direct.headers.get('content-type'), 'application/x-thing');
  assert.match(direct.headers.get('content-disposition') ?? '', /^attachment; filename="gro_e datei\.bin"/);
  const read = Buffer.concat(await (await artifacts.open(made.sha256)).toArray());
  assert.equal(sha256Of(read), made.sha256);
  assert.deepEqual(s3.refused, []);
});

test('an upload to S3 that was cut off goes on with the parts that are missing, at another server', async () => {
  const content = fresh(2 * partBytes + 1);
  const sha256 = sha256Of(content);
  const part = (n: number): Buffer => content.subarray((n - 1) * partBytes, n * partBytes);
  const upload = await begun(content);
  for (const n of [1, 3]) assert.equal(await put(upload, n, part(n)), 200);
  const early = await files.send('POST', `/artifacts/${sha256}/complete`, undefined, 1);
  assert.deepEqual([early.status, early.body.code], [409, 'upload_incomplete']);
  const resumed = await begun(content, 1);
  assert.deepEqual([resumed.upload_id, resumed.stored], [upload.upload_id, [1, 3]]);
  assert.deepEqual(
    resumed.missing.map((one) => one.part),
    [2],
  );
  assert.equal(await put(resumed, 2, part(2)), 200);
  assert.equal((await files.send('POST', `/artifacts/${sha256}/complete`, undefined, 1)).status, 200);
  // Whoever still has an address cannot change what was verified.
  assert.equal(await put(upload, 1, fresh(partBytes)), 404);
  assert.equal(sha256Of(s3.objects.get(keysOf(sha256)[0] ?? '') ?? Buffer.alloc(0)), sha256);
});

test('what does not fit its hash is refused by S3 too, and nothing of it is left', async () => {
  const content = fresh(1000);
  const sha256 = sha256Of(content);
  const upload = await begun(content);
  assert.equal(await put(upload, 1, fresh(1000)), 200);
  const refused = await files.send('POST', `/artifacts/${sha256}/complete`);
  assert.deepEqual([refused.status, refused.body.code], [422, 'artifact_mismatch']);
  assert.deepEqual(keysOf(sha256), []);
  assert.equal((await files.send('GET', `/artifacts/${sha256}`)).status, 404);
  assert.equal(s3.uploads.size, 0);
});

test('a part on S3 that has not the size it should have counts as missing, and is sent again', async () => {
  const content = fresh(partBytes + 1000);
  const sha256 = sha256Of(content);
  const upload = await begun(content);
  assert.equal(await put(upload, 1, content.subarray(0, partBytes)), 200);
  for (const [part, bytes] of [
    [2, 999],
    [2, 1001],
    [2, 0],
    [1, 10],
  ] as const) {
    assert.equal(await put(upload, part, fresh(bytes)), 200);
    const refused = await files.send('POST', `/artifacts/${sha256}/complete`);
    assert.deepEqual([refused.status, refused.body.code], [409, 'upload_incomplete']);
    assert.match(refused.body.detail ?? '', new RegExp(`are not there: .*${part}`));
  }
  assert.equal((await files.house.client.artifacts.upload(content)).sha256, sha256);
  assert.equal(sha256Of(s3.objects.get(keysOf(sha256)[0] ?? '') ?? Buffer.alloc(0)), sha256);
});

test('whoever is slower with the same file gets the artifact of the quicker one from S3 too', async () => {
  const content = fresh(partBytes + 1);
  const { artifacts } = files.house.client;
  let quicker: Promise<Artifact> | undefined;
  const slow = slowFile(content, () => (quicker ??= artifacts.upload(content)));
  const made = await artifacts.upload(slow);
  assert.deepEqual([made.sha256, made.created_at], [sha256Of(content), (await quicker)?.created_at]);
  assert.equal(keysOf(made.sha256).length, 1);
});

test('what a server put together on S3 and did not live to note is noted when the file is sent again', async () => {
  for (const code of ['NoSuchUpload', 'NoSuchKey'] as const) {
    s3.goneCode = code;
    for (const again of ['upload', 'complete']) {
      const content = fresh(100);
      const upload = await begun(content);
      assert.equal(await put(upload, 1, content), 200);
      const found = { size: 100, sha256: upload.sha256 };
      assert.deepEqual(await finish(upload), found);
      assert.deepEqual(await finish(upload), found);
      if (again === 'upload') assert.equal((await files.house.client.artifacts.upload(content)).size, 100);
      else assert.equal((await files.send('POST', `/artifacts/${upload.sha256}/complete`, undefined, 1)).status, 200);
      assert.equal(keysOf(upload.sha256).length, 1);
    }
  }
});

test('an upload that S3 has thrown away begins anew when the file is sent again', async () => {
  for (const code of ['NoSuchUpload', 'NoSuchKey'] as const) {
    s3.goneCode = code;
    const content = fresh(100);
    const upload = await begun(content);
    s3.uploads.clear();
    const refused = await files.send('POST', `/artifacts/${upload.sha256}/complete`);
    assert.deepEqual([refused.status, refused.body.code], [404, 'upload_not_found']);
    const [one, other] = await Promise.all([begun(content, 0), begun(content, 1)]);
    assert.notEqual(one.upload_id, upload.upload_id);
    assert.equal(one.upload_id, other.upload_id);
    assert.equal((await files.house.client.artifacts.upload(content)).size, 100);
  }
});

test('addresses of S3 are good for what they were made for only', async () => {
  const content = fresh(partBytes + 1);
  const upload = await begun(content);
  const url = upload.missing[0]?.url ?? '';
  const tricks = [
    url.replace('partNumber=1', 'partNumber=2'),
    url.replace(/X-Amz-Expires=\d+/, 'X-Amz-Expires=604800'),
    url.replace(upload.sha256, sha256Of(fresh(5))),
    url.replace(/X-Amz-Signature=..../, 'X-Amz-Signature=0000'),
    url.replace(/\?.*/, ''),
  ];
  for (const trick of tricks) assert.equal((await fetch(trick, { method: 'PUT', body: content })).status, 403, trick);
  assert.equal((await fetch(url)).status, 403, 'it reads');
  assert.equal((await fetch(url, { method: 'DELETE' })).status, 403, 'it deletes');
  assert.equal(s3.refused.length, tricks.length + 2);
  s3.refused.length = 0;
  const other = await fetch(
    `${files.house.url}/artifacts/${upload.sha256}/parts/1?upload=${upload.upload_id}&expires=1&signature=${'0'.repeat(64)}`,
    { method: 'PUT', body: 'x' },
  );
  assert.equal(other.status, 404);
});

test('an empty file is kept, a deleted one and an expired upload are removed from S3', async () => {
  const { artifacts } = files.house.client;
  const empty = await artifacts.upload(new Uint8Array());
  assert.equal(s3.objects.get(keysOf(empty.sha256)[0] ?? '')?.length, 0);
  const { sha256 } = await artifacts.upload(fresh(100));
  await artifacts.delete(sha256);
  const upload = await begun(fresh(100));
  await put(upload, 1, fresh(100));
  await files.query(
    `update punctual.artifact_uploads set expires_at = now() - interval '1 second' where over_at is null`,
  );
  await sweep();
  assert.deepEqual([keysOf(sha256), s3.uploads.size], [[], 0]);
});

test('while S3 does not answer, uploads are refused as unavailable, and go on when it does', async () => {
  const content = fresh(100);
  s3.isDown = true;
  const refused = await files.send('POST', '/artifacts', { sha256: sha256Of(content), size: 100 });
  assert.deepEqual([refused.status, refused.body.code], [503, 'storage_unavailable']);
  assert.match(refused.body.detail ?? '', /SlowDown/);
  s3.isDown = false;
  assert.equal((await files.house.client.artifacts.upload(content)).size, 100);
});

test('a server with a bucket and without credentials does not start', async () => {
  const config = { ...files.house.config, s3_secret_access_key: null };
  await assert.rejects(
    startServer(config, { databaseUrl: files.house.databaseUrl }),
    /PUNCTUAL_S3_SECRET_ACCESS_KEY must be too/,
  );
});

/** What a server does to complete it, before it notes that. */
async function finish(upload: Upload): Promise<unknown> {
  const { openStore } = await import('@punctual/server/internal/artifacts/open');
  const store = openStore(files.house.config, async () => '');
  const { sha256, upload_id, size, part_bytes } = upload;
  const multipart = new URL(upload.missing[0]?.url ?? '').searchParams.get('uploadId');
  return store.finish({ sha256, upload_id, size, part_bytes, multipart });
}

/** What a server does once a minute. */
async function sweep(): Promise<void> {
  const { Artifacts } = await import('@punctual/server/internal/artifacts/artifacts');
  const { openStore } = await import('@punctual/server/internal/artifacts/open');
  const store = openStore(files.house.config, async () => '');
  const warnings: unknown[] = [];
  const log = { warn: (...words: unknown[]) => warnings.push(words) } as never;
  await new Artifacts({ db: files.house.db, segments: 4, store, maxBytes: mb, log }).sweep();
  assert.deepEqual(warnings, []);
}

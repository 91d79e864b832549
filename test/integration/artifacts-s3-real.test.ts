// Artifacts in a service that speaks S3 and that somebody else wrote; see docs/artifacts.md for how to give one. What only
// a double can show (every signature verified, a store that is down) is in artifacts-s3.test.ts.
import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Artifact, Upload } from '@punctual/contract';
import { Artifacts } from '@punctual/server/internal/artifacts/artifacts';
import { openStore } from '@punctual/server/internal/artifacts/open';
import type { ArtifactStore } from '@punctual/server/internal/artifacts/store';
import { eventually } from '../support/eventually.ts';
import { type Answer, type FileHouse, fresh, mb, openFiles, sha256Of, slowFile } from '../support/files.ts';
import { type RealS3, realS3, whyNoS3 } from '../support/real_s3.ts';

const partBytes = 5 * mb;
const nothing = { objects: [], uploads: [] };

describe('artifacts in an S3 that is given', { skip: whyNoS3 ?? false }, () => {
  let s3: RealS3;
  let files: FileHouse;
  before(async () => {
    s3 = realS3();
    files = await openFiles({ servers: 2, config: { ...s3.config, artifacts_max_mb: 64 } });
  });
  after(() => files[Symbol.asyncDispose]());

  const begun = async (content: Buffer, server = 0): Promise<Upload> => {
    const { upload } = await files.begin(content, {}, server);
    assert.ok(upload !== null);
    return upload;
  };
  const addressOf = (upload: Upload, part: number): string =>
    upload.missing.find((one) => one.part === part)?.url ?? assert.fail(`no address of part ${part}`);
  const multipartOf = (upload: Upload): string => new URL(addressOf(upload, 1)).searchParams.get('uploadId') ?? '';
  const store = (): ArtifactStore => openStore(files.house.config, async () => '');
  const partOf = (content: Buffer, part: number): Buffer => content.subarray((part - 1) * partBytes, part * partBytes);
  const complete = (sha256: string, server = 0): Promise<Answer> =>
    files.send('POST', `/artifacts/${sha256}/complete`, undefined, server);
  const locationOf = async (sha256: string): Promise<string> => {
    const redirect = await fetch(`${files.house.url}/artifacts/${sha256}/content`, { redirect: 'manual' });
    assert.equal(redirect.status, 307);
    return redirect.headers.get('location') ?? '';
  };

  for (const { what, size } of [
    { what: 'one part', size: 1000 },
    { what: 'one whole part', size: partBytes },
    { what: 'several parts', size: 2 * partBytes + 1 },
  ])
    test(`a file of ${what} goes to S3 and comes back with its name and type`, async () => {
      const content = fresh(size);
      const { artifacts } = files.house.client;
      const sent: number[] = [];
      const made = await artifacts.upload(content, {
        ...{ name: 'bücher/große datei, 1+1 "ж" 100%.txt', contentType: 'text/x-thing; charset=utf-8' },
        onProgress: (bytes) => sent.push(bytes),
      });
      assert.deepEqual([made.sha256, made.size, sent.at(-1)], [sha256Of(content), size, size]);
      const { objects, uploads } = await s3.found(made.sha256);
      assert.deepEqual([objects.map((one) => one.size), uploads], [[size], []]);
      assert.ok(objects[0]?.key.startsWith(`${s3.config.s3_prefix}${made.sha256}.`), objects[0]?.key);
      const direct = await fetch(await locationOf(made.sha256));
      assert.equal(sha256Of(Buffer.from(await direct.arrayBuffer())), made.sha256);
      assert.equal(direct.headers.get('content-type'), 'text/x-thing; charset=utf-8');
      assert.equal(
        direct.headers.get('content-disposition'),
        `attachment; filename="gro_e datei, 1+1 ___ 100%.txt"; filename*=UTF-8''gro%C3%9Fe%20datei%2C%201%2B1%20%22%D0%B6%22%20100%25.txt`,
      );
      const range = await fetch(`${files.house.url}/artifacts/${made.sha256}/content`, {
        headers: { range: 'bytes=990-999' },
      });
      assert.deepEqual(
        [range.status, Buffer.from(await range.arrayBuffer()).equals(content.subarray(990, 1000))],
        [206, true],
      );
      assert.equal((await files.begin(content, {}, 1)).artifact?.sha256, made.sha256);
    });

  test('a file and a stream go to S3 through the SDK, are listed, downloaded and deleted', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'punctual-real-s3-'));
    try {
      const { artifacts } = files.house.client;
      const path = join(folder, 'größe.bin');
      await writeFile(path, fresh(partBytes + 7));
      const file = await artifacts.upload(path);
      assert.equal(file.name, 'größe.bin');
      await writeFile(join(folder, 'other'), fresh(3000));
      const stream = await artifacts.upload(createReadStream(join(folder, 'other')));
      const listed: string[] = [];
      for await (const one of artifacts.all()) listed.push(one.sha256);
      assert.deepEqual(listed.slice(0, 2), [stream.sha256, file.sha256]);
      await artifacts.download(file.sha256, join(folder, 'copy'));
      assert.equal(sha256Of(await readFile(join(folder, 'copy'))), file.sha256);
      for (const { sha256 } of [file, stream]) await artifacts.delete(sha256);
      await sweep();
      for (const { sha256 } of [file, stream]) assert.deepEqual(await s3.found(sha256), nothing);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  test('an upload that was cut off goes on at another server, and is completed twice at once', async () => {
    const content = fresh(2 * partBytes + 1);
    const sha256 = sha256Of(content);
    const upload = await begun(content);
    for (const n of [1, 3]) assert.equal(await put(addressOf(upload, n), partOf(content, n)), 200);
    const early = await complete(sha256, 1);
    assert.deepEqual([early.status, early.body.code], [409, 'upload_incomplete']);
    const resumed = await begun(content, 1);
    assert.deepEqual([resumed.upload_id, resumed.stored], [upload.upload_id, [1, 3]]);
    assert.equal(await put(addressOf(resumed, 2), fresh(partBytes)), 200);
    // A part that is sent again replaces the one before.
    assert.equal(await put(addressOf(resumed, 2), partOf(content, 2)), 200);
    const both = await Promise.all([complete(sha256, 0), complete(sha256, 1)]);
    assert.deepEqual(
      both.map((one) => [one.status, one.body['sha256']]),
      both.map(() => [200, sha256]),
    );
    assert.equal((await complete(sha256)).status, 200);
    assert.equal(sha256Of(await read(await locationOf(sha256))), sha256);
  });

  test('two who begin and send the same file at once make one artifact, and nothing is left beside it', async () => {
    const content = fresh(partBytes + 1);
    const made = await Promise.all(files.house.servers.map(() => files.house.client.artifacts.upload(content)));
    const uploads = await Promise.all([begun(fresh(100), 0), begun(fresh(100), 1)]);
    assert.equal(new Set(uploads.map((one) => one.upload_id)).size, 2);
    assert.equal(made[0]?.created_at, made[1]?.created_at);
    const found = await s3.found(sha256Of(content));
    assert.deepEqual([found.objects.length, found.uploads.length], [1, 0]);
  });

  test('whoever is slower with the same file gets the artifact of the quicker one', async () => {
    const content = fresh(partBytes + 1);
    const { artifacts } = files.house.client;
    let quicker: Promise<Artifact> | undefined;
    const slow = slowFile(content, () => (quicker ??= artifacts.upload(content)));
    const made = await artifacts.upload(slow);
    assert.deepEqual([made.sha256, made.created_at], [sha256Of(content), (await quicker)?.created_at]);
    assert.equal(sha256Of(await read(await locationOf(made.sha256))), made.sha256);
  });

  test('what a server put together and did not live to note is noted when the file is sent again', async () => {
    for (const again of ['upload', 'complete']) {
      const content = fresh(100);
      const upload = await begun(content);
      assert.equal(await put(addressOf(upload, 1), content), 200);
      const found = { size: 100, sha256: upload.sha256 };
      assert.deepEqual(await store().finish({ ...upload, multipart: multipartOf(upload) }), found);
      assert.deepEqual(await store().finish({ ...upload, multipart: multipartOf(upload) }), found);
      if (again === 'upload') assert.equal((await files.house.client.artifacts.upload(content)).size, 100);
      else assert.equal((await complete(upload.sha256, 1)).status, 200);
      assert.equal(sha256Of(await read(await locationOf(upload.sha256))), upload.sha256);
    }
  });

  test('an upload that the service has thrown away begins anew when the file is sent again', async () => {
    const content = fresh(partBytes + 1);
    const upload = await begun(content);
    assert.equal(await put(addressOf(upload, 1), partOf(content, 1)), 200);
    await store().abandon(upload, multipartOf(upload));
    const refused = await complete(upload.sha256);
    assert.deepEqual([refused.status, refused.body.code], [404, 'upload_not_found']);
    const anew = await begun(content, 1);
    assert.notEqual(anew.upload_id, upload.upload_id);
    assert.deepEqual(anew.stored, []);
    assert.equal((await files.house.client.artifacts.upload(content)).size, content.length);
  });

  test('what does not fit its hash is refused, and nothing of it is left', async () => {
    for (const size of [1000, partBytes + 1]) {
      const content = fresh(size);
      const sha256 = sha256Of(content);
      const upload = await begun(content);
      for (const { part, url, size: bytes } of upload.missing)
        assert.equal(await put(url, fresh(bytes)), 200, `${part}`);
      const refused = await complete(sha256);
      assert.deepEqual([refused.status, refused.body.code], [422, 'artifact_mismatch']);
      assert.deepEqual(await s3.found(sha256), nothing);
      assert.equal((await files.send('GET', `/artifacts/${sha256}`)).status, 404);
      assert.equal((await files.house.client.artifacts.upload(content)).sha256, sha256);
    }
  });

  test('a part that is too short, too long or empty counts as missing, and is sent again', async () => {
    const content = fresh(partBytes + 1000);
    const sha256 = sha256Of(content);
    const upload = await begun(content);
    assert.equal(await put(addressOf(upload, 1), partOf(content, 1)), 200);
    for (const [part, bytes] of [
      [2, 999],
      [2, 1001],
      [2, 0],
      [1, 10],
    ] as const) {
      assert.equal(await put(addressOf(upload, part), fresh(bytes)), 200);
      const refused = await complete(sha256);
      assert.deepEqual([refused.status, refused.body.code], [409, 'upload_incomplete']);
      assert.ok((await begun(content)).missing.some((one) => one.part === part));
    }
    assert.equal((await files.house.client.artifacts.upload(content)).sha256, sha256);
    assert.equal(sha256Of(await read(await locationOf(sha256))), sha256);
  });

  test('an empty file is kept', async () => {
    const { artifacts } = files.house.client;
    const { sha256 } = await artifacts.upload(new Uint8Array(), { name: 'ничего' });
    assert.deepEqual(
      (await s3.found(sha256)).objects.map((one) => one.size),
      [0],
    );
    assert.equal((await read(await locationOf(sha256))).length, 0);
    await artifacts.delete(sha256);
    await sweep();
    assert.deepEqual(await s3.found(sha256), nothing);
  });

  test('addresses are good for what they were made for only, and not for ever', async () => {
    const content = fresh(partBytes + 1);
    const upload = await begun(content);
    const url = addressOf(upload, 1);
    const tricks = {
      part: url.replace('partNumber=1', 'partNumber=2'),
      life: url.replace(/X-Amz-Expires=\d+/, 'X-Amz-Expires=604800'),
      file: url.replace(upload.sha256, sha256Of(fresh(5))),
      signature: url.replace(/X-Amz-Signature=..../, 'X-Amz-Signature=0000'),
      'no upload': url.replace(/uploadId=[^&]*&/, ''),
      unsigned: url.replace(/\?.*/, ''),
    };
    for (const [trick, address] of Object.entries(tricks)) {
      assert.notEqual(address, url);
      assert.ok(isRefused(await put(address, content)), trick);
    }
    for (const method of ['GET', 'DELETE', 'POST']) {
      const { status } = await fetch(url, { method });
      assert.ok(isRefused(status), `${method} is answered with ${status}`);
    }
    assert.deepEqual((await begun(content)).stored, []);
    const made = await files.house.client.artifacts.upload(content);
    const location = await locationOf(made.sha256);
    assert.match(location, /attachment/);
    assert.ok(isRefused((await fetch(location.replace('attachment', 'inline'))).status));
    assert.ok(isRefused(await put(location, fresh(5))));
    assert.equal(sha256Of(await read(location)), made.sha256);
    const other = await begun(fresh(5));
    const short = await store().addressOf({ ...other, multipart: multipartOf(other) }, 1, 10, 0);
    assert.equal(await put(short.url, fresh(5)), 200);
    await eventually(async () => assert.ok(isRefused(await put(short.url, fresh(5)))), { everyMs: 500 });
  });

  test('whoever still has an address of a completed upload cannot give the file another content', async (t) => {
    const content = fresh(100);
    const upload = await begun(content);
    const url = addressOf(upload, 1);
    assert.equal(await put(url, content), 200);
    assert.equal((await complete(upload.sha256)).status, 200);
    const late = await put(url, fresh(100));
    const response = await fetch(await locationOf(upload.sha256));
    const bytes = await response.arrayBuffer().catch(() => null);
    t.diagnostic(
      `a late part is answered with ${late}, then reading with ${bytes === null ? 'a cut' : response.status}`,
    );
    if (response.ok && bytes !== null) assert.equal(sha256Of(Buffer.from(bytes)), upload.sha256);
  });

  test('an upload that nobody goes on with is removed from S3 when it has expired', async () => {
    const upload = await begun(fresh(partBytes + 1));
    assert.equal(await put(addressOf(upload, 1), fresh(partBytes)), 200);
    assert.equal((await s3.found(upload.sha256)).uploads.length, 1);
    await files.query(
      `update punctual.artifact_uploads set expires_at = now() - interval '1 second' where over_at is null`,
    );
    await sweep();
    assert.deepEqual(await s3.found(upload.sha256), nothing);
    assert.notEqual(await put(addressOf(upload, 1), fresh(partBytes)), 200);
  });

  test('when all artifacts are deleted the bucket holds nothing of them', async () => {
    const { artifacts } = files.house.client;
    for await (const { sha256 } of artifacts.all()) await artifacts.delete(sha256);
    await files.query(
      `update punctual.artifact_uploads set expires_at = now() - interval '1 second' where over_at is null`,
    );
    await sweep();
    assert.deepEqual(await s3.found(), nothing);
  });

  /** What a server does once a minute. */
  async function sweep(): Promise<void> {
    const warnings: unknown[] = [];
    const log = { warn: (...words: unknown[]) => warnings.push(words) } as never;
    await new Artifacts({ db: files.house.db, segments: 4, store: store(), maxBytes: mb, log }).sweep();
    assert.deepEqual(warnings, []);
  }
});

/** As any client does it: nothing signed by it. */
async function put(url: string, body: Uint8Array): Promise<number> {
  const response = await fetch(url, { method: 'PUT', body });
  await response.arrayBuffer();
  return response.status;
}

/** Services differ in how they say no: 403, mostly. */
function isRefused(status: number): boolean {
  return [400, 401, 403, 405].includes(status);
}

async function read(url: string): Promise<Buffer> {
  const response = await fetch(url);
  assert.equal(response.status, 200);
  return Buffer.from(await response.arrayBuffer());
}

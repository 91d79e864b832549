// Artifacts in a folder, over real servers: uploads in parts that go on at another server, what is refused, how content is
// read, and what is left of what came to nothing. Who refers to them, and when they go, is in artifact-refs.test.ts.
import assert from 'node:assert/strict';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import type { Upload } from '@punctual/contract';
import { partUrl } from '@punctual/server/internal/artifacts/addresses';
import { sharedSecret } from '@punctual/server/internal/store/secrets';
import { type FileHouse, fresh, mb, openFiles, sha256Of } from '../support/files.ts';

let files: FileHouse;
before(async () => {
  files = await openFiles({ servers: 2 });
});
after(() => files[Symbol.asyncDispose]());

const partBytes = 4 * mb;
const parts = (content: Buffer): Buffer[] =>
  Array.from({ length: Math.ceil(content.length / partBytes) }, (_, i) =>
    content.subarray(i * partBytes, (i + 1) * partBytes),
  );

async function begun(content: Buffer, more: object = {}, server = 0): Promise<Upload> {
  const { upload, artifact } = await files.begin(content, more, server);
  assert.equal(artifact, null);
  assert.ok(upload !== null);
  return upload;
}

test('a file is uploaded to an address that was signed, found by its hash, and downloaded as it was', async () => {
  const content = Buffer.from('hello, artifact\n');
  const sha256 = sha256Of(content);
  const upload = await begun(content, { name: 'deep/hällo "1".txt', content_type: 'text/html' });
  assert.deepEqual([upload.parts, upload.stored, upload.missing.length], [1, [], 1]);
  assert.equal(upload.missing[0]?.method, 'PUT');
  assert.equal((await files.put(upload, 1, content)).status, 200);
  assert.equal((await files.send('GET', `/artifacts/${sha256}`)).status, 404, 'it exists before it is complete');
  const { body } = await files.send('POST', `/artifacts/${sha256}/complete`);
  assert.deepEqual([body['sha256'], body['size'], body['name']], [sha256, content.length, 'deep/hällo "1".txt']);
  assert.equal((await files.send('POST', `/artifacts/${sha256}/complete`)).status, 200, 'completing again is harmless');
  const again = await files.begin(content, { name: 'another.txt' });
  assert.equal(again.artifact?.name, 'deep/hällo "1".txt');

  const response = await fetch(`${files.house.url}/artifacts/${sha256}/content`);
  assert.equal(await response.text(), content.toString());
  const header = (name: string): string | null => response.headers.get(name);
  assert.equal(header('content-length'), String(content.length));
  assert.equal(header('etag'), `"${sha256}"`);
  assert.equal(header('x-content-type-options'), 'nosniff');
  assert.equal(header('content-type'), 'text/html');
  assert.match(header('content-security-policy') ?? '', /sandbox/);
  assert.equal(
    header('content-disposition'),
    `attachment; filename="h_llo _1_.txt"; filename*=UTF-8''h%C3%A4llo%20%221%22.txt`,
  );
});

test('an upload that was cut off goes on with the parts that are missing, at another server', async () => {
  const content = fresh(2 * partBytes + 1000);
  const sha256 = sha256Of(content);
  const [first, second, third] = parts(content) as [Buffer, Buffer, Buffer];
  const upload = await begun(content);
  assert.equal(upload.parts, 3);
  await files.put(upload, 1, first);
  await files.put(upload, 3, third);
  // A connection that breaks in the middle of a part leaves nothing of it.
  const cut = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(second.subarray(0, mb));
      controller.error(new Error('cut'));
    },
  });
  await assert.rejects(files.putTo(upload.missing[1]?.url ?? '', cut));
  const incomplete = await files.send('POST', `/artifacts/${sha256}/complete`, undefined, 1);
  assert.deepEqual([incomplete.status, incomplete.body.code], [409, 'upload_incomplete']);
  assert.match(incomplete.body.detail ?? '', /1 of 3 parts are not there: 2/);

  const resumed = await begun(content, {}, 1);
  assert.equal(resumed.upload_id, upload.upload_id);
  assert.deepEqual([resumed.stored, resumed.missing.map(({ part }) => part)], [[1, 3], [2]]);
  assert.equal((await files.put(resumed, 2, second.toReversed(), 1)).status, 200);
  // Sent again, it replaces what was there.
  assert.equal((await files.put(resumed, 2, second, 0)).status, 200);
  assert.equal((await files.send('POST', `/artifacts/${sha256}/complete`, undefined, 1)).status, 200);
  const read = await fetch(`${files.house.url}/artifacts/${sha256}/content`);
  assert.equal(sha256Of(Buffer.from(await read.arrayBuffer())), sha256);
  const left = (await files.files()).filter((path) => path.includes(sha256));
  assert.equal(left.length, 1, `only the whole file is left: ${left.join()}`);
});

test('what does not fit its hash is refused, and nothing of it is left', async () => {
  const content = fresh(1000);
  const sha256 = sha256Of(content);
  const upload = await begun(content);
  await files.put(upload, 1, fresh(1000));
  const refused = await files.send('POST', `/artifacts/${sha256}/complete`);
  assert.deepEqual([refused.status, refused.body.code], [422, 'artifact_mismatch']);
  assert.match(refused.body.detail ?? '', new RegExp(`announced were ${sha256} and 1000 bytes`));
  assert.deepEqual(
    (await files.files()).filter((path) => path.includes(sha256)),
    [],
  );
  assert.equal((await files.send('GET', `/artifacts/${sha256}`)).status, 404);
  assert.equal((await files.send('POST', `/artifacts/${sha256}/complete`)).body.code, 'upload_not_found');
  assert.equal((await files.put(upload, 1, content)).body.code, 'upload_not_found', 'the old address is worth nothing');
  const anew = await begun(content);
  assert.notEqual(anew.upload_id, upload.upload_id);
});

test('a part that is too short or too long is refused, and nothing of it is left', async () => {
  const content = fresh(1000);
  const upload = await begun(content);
  for (const bytes of [content.subarray(1), Buffer.concat([content, content]), Buffer.alloc(0)]) {
    assert.equal((await files.put(upload, 1, bytes)).body.code, 'artifact_mismatch');
    // Without Content-Length it is found out on the way.
    const stream = Readable.toWeb(Readable.from([bytes])) as ReadableStream<Uint8Array>;
    assert.equal((await files.putTo(upload.missing[0]?.url ?? '', stream)).body.code, 'artifact_mismatch');
  }
  assert.deepEqual(
    (await files.files()).filter((path) => path.includes(upload.sha256)),
    [],
  );
});

test('an address is good for one part of one file, and not for ever', async () => {
  const content = fresh(partBytes + 5);
  const upload = await begun(content);
  const url = upload.missing[0]?.url ?? '';
  const other = sha256Of(fresh(10));
  const secret = await sharedSecret(files.house.db, 'artifact_addresses');
  const { sha256, upload_id } = upload;
  const past = partUrl(secret, { sha256, upload_id, part: 1, expires: Math.floor(Date.now() / 1000) - 5 });
  const mine = partUrl('00'.repeat(32), { sha256, upload_id, part: 1, expires: Math.floor(Date.now() / 1000) + 60 });
  const wrong = [
    url.replace('/parts/1', '/parts/2'),
    url.replace(sha256, other),
    url.replace(/expires=\d+/, 'expires=99999999999'),
    url.replace(upload_id, '01970000-0000-7000-8000-000000000001'),
    past,
    mine,
  ];
  for (const one of wrong) {
    const answer = await files.putTo(one, content.subarray(0, partBytes));
    assert.deepEqual([answer.status, answer.body.code], [403, 'invalid_signature'], one);
  }
  for (const method of ['GET', 'POST', 'DELETE'])
    assert.equal((await files.send(method, url)).body.code, 'method_not_allowed');
  for (const query of ['', '?upload=x', '?signature=00'])
    assert.equal((await files.putTo(url.replace(/\?.*/, query), content)).status, 400);
  assert.deepEqual((await begun(content)).stored, []);
});

test('names that would lead elsewhere are refused, and so is everything else that does not fit', async () => {
  const wanted = { sha256: sha256Of(fresh(3)), size: 3 };
  const names = ['../x', 'a/../b', '/etc/passwd', '..', '.', 'a/./b', 'a//b', 'a/', 'a\\..\\b', '', 'x'.repeat(256)];
  names.push('a\0b', 'a\nb', '\u001b[31m', '\ud800', 'a/..');
  for (const name of names)
    assert.equal((await files.send('POST', '/artifacts', { ...wanted, name })).status, 400, JSON.stringify(name));
  const bad = [
    { ...wanted, sha256: `${wanted.sha256.slice(2)}..` },
    { ...wanted, sha256: wanted.sha256.toUpperCase() },
    { ...wanted, sha256: `../${wanted.sha256.slice(3)}` },
    ...[-1, 1.5, '3', 2 ** 50, null].map((size) => ({ ...wanted, size })),
    { ...wanted, content_type: 'text/html\r\nx: y' },
    { ...wanted, content_type: 'html' },
    { ...wanted, path: '/tmp/x' },
    { size: 3 },
  ];
  for (const body of bad)
    assert.equal((await files.send('POST', '/artifacts', body)).status, 400, JSON.stringify(body));
  for (const path of ['..%2f..%2fetc%2fpasswd', 'abc', '%00', `${wanted.sha256}%2f..`, `${wanted.sha256}0`])
    for (const end of ['', '/content'])
      assert.equal((await files.send('GET', `/artifacts/${path}${end}`)).status, 400, path);
  const large = await files.send('POST', '/artifacts', { ...wanted, size: 16 * mb + 1 });
  assert.deepEqual([large.status, large.body.code], [413, 'artifact_too_large']);
  assert.equal(await files.house.count('artifact_uploads', `where sha256 = '${wanted.sha256}'`), 0);
  for (const name of ['...', 'a..b', '.hidden', 'a/b/c.txt', 'ünï cödé', '~root', 'C:x'])
    assert.equal((await files.send('POST', '/artifacts', { ...wanted, name })).status, 200, name);
});

test('a part of the content is read by Range, and what is known is not sent again', async () => {
  const content = fresh(10_000);
  const { sha256 } = await files.house.client.artifacts.upload(content, { name: 'x.bin' });
  const read = (headers: Record<string, string>, method = 'GET') =>
    fetch(`${files.house.url}/artifacts/${sha256}/content`, { headers, method });
  const part = await read({ range: 'bytes=100-199' });
  assert.deepEqual([part.status, part.headers.get('content-range')], [206, 'bytes 100-199/10000']);
  assert.deepEqual(Buffer.from(await part.arrayBuffer()), content.subarray(100, 200));
  const end = await read({ range: 'bytes=-5', 'if-range': `"${sha256}"` });
  assert.deepEqual(Buffer.from(await end.arrayBuffer()), content.subarray(-5));
  const changed = await read({ range: 'bytes=-5', 'if-range': '"other"' });
  assert.deepEqual([changed.status, (await changed.arrayBuffer()).byteLength], [200, 10_000]);
  const beyond = await read({ range: 'bytes=10000-' });
  assert.deepEqual([beyond.status, beyond.headers.get('content-range')], [416, 'bytes */10000']);
  assert.equal((await read({ 'if-none-match': `"x", "${sha256}"` })).status, 304);
  const head = await read({}, 'HEAD');
  assert.deepEqual([head.status, head.headers.get('content-length')], [200, '10000']);
});

test('whoever uploads the same file at the same time makes one artifact, and no content is left beside it', async () => {
  const content = fresh(partBytes + 100);
  const uploads = Array.from({ length: 6 }, () => files.house.client.artifacts.upload(content, { name: 'same' }));
  const made = await Promise.all(uploads);
  const sha256 = sha256Of(content);
  assert.deepEqual(new Set(made.map((artifact) => artifact.sha256)), new Set([sha256]));
  await files.query(`update punctual.artifact_uploads set expires_at = now() - interval '1 second' where sha256 = $1`, [
    sha256,
  ]);
  await files.sweep();
  const left = (await files.files()).filter((path) => path.includes(sha256));
  assert.equal(left.length, 1, left.join());
  assert.deepEqual(await readFile(left[0] as string), content);
});

test('an upload that nobody goes on with is removed when it has expired', async () => {
  const content = fresh(partBytes + 100);
  const upload = await begun(content);
  await files.put(upload, 1, content.subarray(0, partBytes));
  const mine = async (): Promise<string[]> => (await files.files()).filter((path) => path.includes(upload.sha256));
  await files.sweep();
  assert.equal((await mine()).length, 1, 'it goes before its time');
  await files.query(`update punctual.artifact_uploads set expires_at = now() - interval '1 second' where sha256 = $1`, [
    upload.sha256,
  ]);
  await files.sweep();
  assert.deepEqual(await mine(), []);
  assert.equal((await files.put(upload, 2, content.subarray(partBytes))).body.code, 'upload_not_found');
  // What a frozen server still wrote goes too, and then the upload is forgotten.
  const late = join(files.folder, 'objects', upload.sha256.slice(0, 2));
  await mkdir(late, { recursive: true });
  await writeFile(join(late, `${upload.sha256}.${upload.upload_id}`), 'late');
  await files.query(`update punctual.artifact_uploads set over_at = now() - interval '1 hour' where sha256 = $1`, [
    upload.sha256,
  ]);
  await files.sweep();
  assert.deepEqual(await mine(), []);
  assert.equal(await files.house.count('artifact_uploads', `where sha256 = '${upload.sha256}'`), 0);
});

test('an empty file, a file, bytes and a stream are uploaded, and again without sending anything', async () => {
  const { artifacts } = files.house.client;
  const empty = await artifacts.upload(new Uint8Array());
  assert.equal(empty.size, 0);
  assert.equal((await (await artifacts.open(empty.sha256)).toArray()).length, 0);
  const path = join(files.folder, 'source.bin');
  const content = fresh(partBytes * 2 + 7);
  await writeFile(path, content);
  const progress: number[] = [];
  const made = await artifacts.upload(path, { onProgress: (sent) => progress.push(sent) });
  assert.deepEqual(
    [made.name, made.size, progress[0], progress.at(-1)],
    ['source.bin', content.length, 0, content.length],
  );
  const silent = await artifacts.upload(Readable.from([content.subarray(0, 9), content.subarray(9)]), {
    onProgress: () => assert.fail('it is sent again'),
  });
  assert.equal(silent.sha256, made.sha256);
  await artifacts.download(made.sha256, `${path}.copy`);
  assert.equal(sha256Of(await readFile(`${path}.copy`)), made.sha256);
  await assert.rejects(artifacts.upload(join(files.folder, 'nothing')), /ENOENT/);
  await assert.rejects(artifacts.upload(files.folder), /EISDIR|plain files/);
});

test('a list has every artifact once, newest first, over pages', async () => {
  const { artifacts } = files.house.client;
  const made: string[] = [];
  for (let i = 0; i < 5; i++) made.push((await artifacts.upload(fresh(10))).sha256);
  const listed: string[] = [];
  for (let cursor: string | undefined, pages = 0; pages < 50; pages++) {
    const page = await artifacts.list({ limit: 2, ...(cursor === undefined ? {} : { cursor }) });
    listed.push(...page.artifacts.map(({ sha256 }) => sha256));
    if (page.next_cursor === null) break;
    cursor = page.next_cursor;
  }
  assert.deepEqual(listed.slice(0, 5), made.toReversed());
  assert.equal(new Set(listed).size, listed.length);
  assert.equal(listed.length, await files.house.count('artifacts'));
  assert.equal((await files.send('GET', '/artifacts?cursor=abc')).body.code, 'invalid_cursor');
});

test('a file that is not where it should be is an error that says what to look at', async () => {
  const { sha256 } = await files.house.client.artifacts.upload(fresh(10));
  for (const path of await files.files()) if (path.includes(sha256)) await rm(path);
  const answer = await files.send('GET', `/artifacts/${sha256}/content`);
  assert.deepEqual([answer.status, answer.body.code], [503, 'storage_unavailable']);
  assert.match(answer.body.detail ?? '', /PUNCTUAL_ARTIFACTS_DIR/);
});

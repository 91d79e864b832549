// The vault by itself: what it seals it opens, and only there.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { hidden, isSealed, keyNameOf, openVault, type Place, shown, unlikeSealed } from './vault.ts';

const key = (): string => randomBytes(32).toString('base64');
const vault = openVault({ keys: `one:${key()}`, file: null });
const payload: Place = { kind: 'payload', job_id: 'j' };

describe('a sealed value', () => {
  test('is opened where it was sealed, whatever it is, and never looks like JSON', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const sealed = vault.seal(text, payload);
        assert.ok(isSealed(sealed) && keyNameOf(sealed) === 'one');
        assert.throws(() => JSON.parse(sealed));
        assert.equal(vault.open(sealed, payload), text);
      }),
    );
  });

  test('is another each time', () => {
    const sealed = new Set(Array.from({ length: 1000 }, () => vault.seal('x', payload)));
    assert.equal(sealed.size, 1000);
  });

  test('is not opened at another place, nor when one bit of it was changed', () => {
    const sealed = vault.seal('hello', { kind: 'result', job_id: 'j', run_id: 'r' });
    const places: Place[] = [
      payload,
      { kind: 'error', job_id: 'j', run_id: 'r' },
      { kind: 'result', job_id: 'k', run_id: 'r' },
      { kind: 'result', job_id: 'j', run_id: 's' },
    ];
    for (const place of places) assert.throws(() => vault.open(sealed, place), { code: 'cannot_decrypt' });
    const at = 'enc:one:'.length;
    const bytes = Buffer.from(sealed.slice(at), 'base64url');
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const text = sealed.slice(0, at) + changed.toString('base64url');
      assert.throws(() => vault.open(text, { kind: 'result', job_id: 'j', run_id: 'r' }), { code: 'cannot_decrypt' });
    }
    for (const text of ['enc:', 'enc:one', 'enc:one:', 'enc:one:AAAA', 'enc::x'])
      assert.throws(() => vault.open(text, payload), { code: 'cannot_decrypt' }, text);
  });

  test('of a workflow is opened at its step and its item only', () => {
    const place = { kind: 'step_payload', workflow_id: 'w', step: 's', item: 1 } as const;
    const sealed = vault.seal('x', place);
    assert.equal(vault.open(sealed, place), 'x');
    const others = [
      { ...place, item: 11 },
      { ...place, step: 't' },
      { ...place, workflow_id: 'v' },
      { ...place, kind: 'step_result' },
      { kind: 'workflow', workflow_id: 'w' },
      { kind: 'payload', job_id: 'w' },
    ] as const;
    for (const other of others) assert.throws(() => vault.open(sealed, other), { code: 'cannot_decrypt' });
    const whole = vault.seal('x', { kind: 'workflow', workflow_id: 'w' });
    assert.throws(
      () => vault.open(whole, { kind: 'workflow_result', workflow_id: 'w' }),
      /The workflow result cannot be/,
    );
  });

  test('is hidden unless it is asked for, and other texts are shown as they are', () => {
    const sealed = vault.seal('hello', payload);
    assert.equal(shown(sealed, payload, hidden), null);
    assert.equal(shown(sealed, payload, vault.reveal), 'hello');
    assert.equal(shown('"plain"', payload, hidden), '"plain"');
    assert.equal(shown(null, payload, vault.reveal), null);
    assert.ok(!isSealed(unlikeSealed(sealed)));
    assert.equal(unlikeSealed('an error'), 'an error');
  });
});

describe('keys', () => {
  test('the first seals and all open, whether they come from a file or not', () => {
    const [a, b] = [`a:${key()}`, `b:${key()}`];
    const before = openVault({ keys: a, file: null });
    const sealed = before.seal('x', payload);
    const folder = mkdtempSync(path.join(tmpdir(), 'vault-'));
    const file = path.join(folder, 'keys');
    try {
      writeFileSync(file, `# the new one\n${b}\n\n${a.replaceAll('+', '-').replaceAll('/', '_')}\n`);
      const after = openVault({ keys: null, file });
      assert.equal(after.open(sealed, payload), 'x');
      assert.equal(keyNameOf(after.seal('x', payload)), 'b');
      assert.throws(() => before.open(after.seal('x', payload), payload), /under the key "b", which/);
      assert.ok(after.fingerprints('text').includes(before.fingerprints('text')[0] as string));
    } finally {
      rmSync(folder, { recursive: true });
    }
    assert.throws(() => openVault({ keys: a, file: '/x' }), /both set/);
    assert.throws(() => openVault({ keys: null, file: null }).seal('x', payload), { code: 'encryption_off' });
  });
});

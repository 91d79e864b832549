// Encryption keys at work: how many values are under which key, and the rotation, which writes those under other keys again
// under the one that encrypts now. In bounded steps; it may be stopped anywhere and begun again, and servers go on meanwhile.
import { PunctualError } from '@punctual/contract';
import { keyNameOf, type Vault } from '../base/vault.ts';
import type { Config } from '../config.ts';
import { StartError, vaultOf } from '../start_error.ts';
import { type Database, openDatabase } from '../store/database.ts';
import {
  type RowKey,
  readSealed,
  replaceSealed,
  type SealedColumn,
  scanSealed,
  sealedColumns,
} from '../store/sealed_scan.ts';
import { requireCurrent } from './current.ts';

/** What one step found and did. */
export interface RotateStep {
  column: SealedColumn;
  /** Values under each key, as they stood before. */
  found: Record<string, number>;
  /** Values written again. */
  rotated: number;
  /** Values that no key here decrypts, by the name of the key they are under. */
  unreadable: Record<string, number>;
}

interface Parts {
  db: Database;
  vault: Vault;
  segments: readonly number[];
  dryRun: boolean;
}

/** Rows looked at in one statement. */
const scanRows = 1_000;
/** Values in memory at a time: a result may have a megabyte. */
const valuesAtOnce = 20;

export async function* rotate(parts: Parts): AsyncGenerator<RotateStep, void, undefined> {
  for (const column of sealedColumns) {
    // Servers hold rows of many workflows at once: who waits for one of them must hold no other.
    const atOnce = column.startsWith('workflow') ? 1 : valuesAtOnce;
    for (const segment of parts.segments) {
      for (let after: RowKey | null = null, more = true; more; ) {
        const { rows, next } = await scanSealed(parts.db, { column, segment, after }, scanRows);
        const step: RotateStep = { column, found: {}, rotated: 0, unreadable: {} };
        for (const { under } of rows) step.found[under] = (step.found[under] ?? 0) + 1;
        const old = parts.dryRun ? [] : rows.filter(({ under }) => under !== parts.vault.current);
        for (let i = 0; i < old.length; i += atOnce)
          await rewrite(parts, { column, segment }, { old: old.slice(i, i + atOnce), step });
        yield step;
        after = next;
        more = next !== null;
      }
    }
  }
}

async function rewrite(
  { db, vault }: Parts,
  where: { column: SealedColumn; segment: number },
  { old, step }: { old: readonly { key: RowKey; under: string }[]; step: RotateStep },
): Promise<void> {
  const values = await readSealed(
    db,
    where,
    old.map(({ key }) => key),
  );
  const fresh = values.flatMap((one) => {
    try {
      return [{ ...one, next: vault.seal(vault.open(one.value, one.place), one.place) }];
    } catch (error) {
      if (!(error instanceof PunctualError)) throw error;
      const under = keyNameOf(one.value);
      step.unreadable[under] = (step.unreadable[under] ?? 0) + 1;
      return [];
    }
  });
  if (fresh.length > 0) step.rotated += await replaceSealed(db, where, fresh);
}

export interface KeyUse {
  name: string;
  values: number;
  /** The key that encrypts now, one that only decrypts, or one that is not configured here. */
  state: 'encrypts' | 'decrypts' | 'missing';
}

/** How many values are under which key: those configured first, in their order. */
export function useOfKeys(vault: Vault, found: Readonly<Record<string, number>>): KeyUse[] {
  const names = [...new Set([...vault.names, ...Object.keys(found).sort()])];
  return names.map((name) => ({
    name,
    values: found[name] ?? 0,
    state: name === vault.current ? 'encrypts' : vault.has(name) ? 'decrypts' : 'missing',
  }));
}

export async function countKeys(db: Database, vault: Vault, segments: readonly number[]): Promise<KeyUse[]> {
  const found: Record<string, number> = {};
  for await (const step of rotate({ db, vault, segments, dryRun: true }))
    for (const [key, n] of Object.entries(step.found)) found[key] = (found[key] ?? 0) + n;
  return useOfKeys(vault, found);
}

/** `punctual encryption`: one whole walk over a database, told step by step. Answers the keys as they stood before it. */
export async function rotateDatabase(
  config: Config,
  options: { databaseUrl: string; dryRun: boolean; onStep?: (step: RotateStep) => void },
): Promise<KeyUse[]> {
  const vault = vaultOf(config);
  if (!options.dryRun && vault.current === null)
    throw new StartError(
      'There is no key to rotate to: set PUNCTUAL_ENCRYPTION_KEYS, the new key first, as for the servers.',
    );
  const segments = await requireCurrent(config, options.databaseUrl);
  const db = openDatabase({ url: options.databaseUrl, poolSize: 2, queryTimeoutMs: config.query_timeout_ms });
  const found: Record<string, number> = {};
  try {
    const all = Array.from({ length: segments }, (_, i) => i);
    for await (const step of rotate({ db, vault, segments: all, dryRun: options.dryRun })) {
      for (const [key, n] of Object.entries(step.found)) found[key] = (found[key] ?? 0) + n;
      options.onStep?.(step);
    }
  } finally {
    await db.close();
  }
  return useOfKeys(vault, found);
}

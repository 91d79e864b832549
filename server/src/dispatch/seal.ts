// What runs of encrypted jobs store is sealed here on its way into the book, and what their workers get is opened. All other
// jobs pass through untouched. Jobs themselves are sealed by store/sealed.ts.
import { PunctualError } from '@punctual/contract';
import { isSealed, type Vault } from '../base/vault.ts';
import type { StoredJob } from '../rules/job.ts';
import type { ClaimedRun } from '../store/claim.ts';

/** A job of the book as it was submitted. */
export function openJob(vault: Vault, job: Omit<StoredJob, 'encrypted'> & { job_id: string }): StoredJob {
  const { job_id, payload } = job;
  if (!isSealed(payload)) return { ...job, encrypted: false };
  return { ...job, encrypted: true, payload: vault.open(payload, { kind: 'payload', job_id }) };
}

/** A claimed run as its worker gets it. */
export function openRun(vault: Vault, run: ClaimedRun): ClaimedRun {
  const { run_id, job_id, payload, kept } = run;
  const value = kept?.value ?? null;
  return {
    ...run,
    payload: isSealed(payload) ? vault.open(payload, { kind: 'payload', job_id }) : payload,
    kept:
      kept !== undefined && isSealed(value)
        ? { ...kept, value: vault.open(value, { kind: 'checkpoint', job_id, run_id }) }
        : kept,
  };
}

export type RunValue = 'result' | 'error' | 'checkpoint';

/** What a run stores as it is written; null: it must be sealed and cannot be, so it must not be stored. */
export type Sealer = (kind: RunValue, run_id: string, text: string) => string | null;

export const unsealed: Sealer = (_kind, _run_id, text) => text;

/** Seals what these runs store; `jobs` are their jobs, by run. */
export function sealerOf(vault: Vault, jobs: ReadonlyMap<string, string>): Sealer {
  if (jobs.size === 0) return unsealed;
  return (kind, run_id, text) => {
    const job_id = jobs.get(run_id);
    if (job_id === undefined) return text;
    try {
      return vault.seal(text, { kind, job_id, run_id });
    } catch (error) {
      if (error instanceof PunctualError) return null;
      throw error;
    }
  };
}

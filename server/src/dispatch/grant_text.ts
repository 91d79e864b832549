// Grants as a worker reads them: each as one object of JSON, or for a worker that asks for it in two parts, what runs have
// alike and what each has for itself (contract/src/workers.ts). Payloads and executors are JSON already and are carried through
// as they came.
import { monotonicMs } from '../base/clock.ts';
import type { OutgoingGrant } from './sessions.ts';

/** An answer with its grants; `head` is an object of JSON without them. */
export function inOnePart(head: string, grants: readonly OutgoingGrant[]): string {
  const now = monotonicMs();
  const runs = grants.map(
    (grant) => `{"run_id":"${grant.run.run_id}",${sharedMembers(grant, now)},${ownMembers(grant)}}`,
  );
  return `${head.slice(0, -1)},"runs":[${runs.join(',')}]}`;
}

/** The same as a line with `batches`, and what follows. */
export function inTwoParts(head: string, grants: readonly OutgoingGrant[]): string {
  const now = monotonicMs();
  const batches: string[] = [];
  const own: string[] = [];
  let first: OutgoingGrant | null = null;
  let ids = '';
  const close = (): void => {
    if (first !== null) batches.push(`{"alike":{${sharedMembers(first, now)}},"run_ids":[${ids}]}`);
  };
  for (const grant of grants) {
    const { run_id } = grant.run;
    if (first === null || !areOfOneBatch(grant, first)) {
      close();
      first = grant;
      ids = `"${run_id}"`;
    } else {
      ids += `,"${run_id}"`;
    }
    own.push(`{${differentMembers(grant, first)}${ownMembers(grant)}}`);
  }
  close();
  return `${head.slice(0, -1)},"batches":[${batches.join(',')}]}\n[${own.join(',')}]`;
}

/** What whoever keeps the leases must know is the same in a batch. */
function areOfOneBatch(a: OutgoingGrant, b: OutgoingGrant): boolean {
  return (
    a.lane === b.lane &&
    a.held.lease_id === b.held.lease_id &&
    a.run.timeout_ms === b.run.timeout_ms &&
    a.startAt === b.startAt &&
    a.awaited === b.awaited
  );
}

/** A grant that is sent before its time says how long that is away as it leaves. */
function sharedMembers({ run, lane, held, startAt, awaited }: OutgoingGrant, now: number): string {
  const early = startAt === null || startAt <= now ? '' : `,"start_in_ms":${(startAt - now).toFixed(2)}`;
  return (
    `"lease_id":"${held.lease_id}","name":${JSON.stringify(run.name)},"type":"${lane.type}","queue":"${lane.queue}",` +
    `"priority":${lane.priority},"user_id":${JSON.stringify(run.user_id)},"attempt_number":${run.attempt},` +
    `"max_attempts":${run.max_retries + 1},"timeout_ms":${run.timeout_ms},"due_at":"${rfc3339(run.due_at)}",` +
    `"scheduled_for":"${rfc3339(run.scheduled_for ?? run.due_at)}"${awaited ? ',"awaited":true' : ''}${early}`
  );
}

function differentMembers({ run }: OutgoingGrant, { run: first }: OutgoingGrant): string {
  let members = '';
  if (run.name !== first.name) members += `"name":${JSON.stringify(run.name)},`;
  if (run.user_id !== first.user_id) members += `"user_id":${JSON.stringify(run.user_id)},`;
  if (run.attempt !== first.attempt) members += `"attempt_number":${run.attempt},`;
  if (run.max_retries !== first.max_retries) members += `"max_attempts":${run.max_retries + 1},`;
  if (run.due_at !== first.due_at || run.scheduled_for !== first.scheduled_for)
    members += `"due_at":"${rfc3339(run.due_at)}","scheduled_for":"${rfc3339(run.scheduled_for ?? run.due_at)}",`;
  return members;
}

function ownMembers({ run, encrypted, traceparent }: OutgoingGrant): string {
  const { kept } = run;
  const executor = run.executor === null ? '' : `"executor":${run.executor},`;
  const trace = traceparent === null ? '' : `"traceparent":"${traceparent}",`;
  const checkpoint =
    kept?.value == null || kept.saved_at === null
      ? ''
      : `"checkpoint":{"version":${kept.version},"saved_at":"${rfc3339(kept.saved_at)}","value":${kept.value}},`;
  return `"job_id":"${run.job_id}","fence":${run.fence},${executor}${trace}${checkpoint}${encrypted ? '"encrypted":true,' : ''}"payload":${run.payload ?? 'null'}`;
}

/** As PostgreSQL writes a time in UTC: `2030-01-31 09:00:00.5+00`. */
function rfc3339(text: string): string {
  return `${text.slice(0, 10)}T${text.slice(11, -3)}Z`;
}

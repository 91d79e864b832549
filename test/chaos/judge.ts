// Three witnesses are heard: the book, what the clients were told, and what the jobs themselves wrote outside the system. A
// fourth is a trigger on the table of leases, which notes when each began and ended.
import { type Database, openDatabase } from '@punctual/server/internal/store/database';
import { checkInvariants } from '@punctual/server/internal/store/invariants';
import { type LedgerLine, monotonicNow, overlaps, readLedger } from '../support/ledger.ts';
import type { History } from './load.ts';

/** Between a decision and the line that a job or a trigger writes about it. */
const noticeMs = 1_500;
const mostShown = 5;

const leaseLog = `
  create table public.lease_log (
    n bigserial primary key, run_id uuid, lease_id uuid, attempt integer, what text, at timestamptz default clock_timestamp()
  );
  create function public.log_lease() returns trigger language plpgsql as $$
  begin
    if tg_op = 'INSERT' then
      insert into public.lease_log (run_id, lease_id, attempt, what) values (new.run_id, new.lease_id, new.attempt, 'begins');
    else
      insert into public.lease_log (run_id, lease_id, attempt, what) values (old.run_id, old.lease_id, old.attempt, 'ends');
    end if;
    return null;
  end $$;
  create trigger log_lease after insert or delete on punctual.running for each row execute function public.log_lease();`;

interface BookRun {
  run_id: string;
  job_id: string;
  name: string;
  status: string;
  attempt: number;
  worker_id: string | null;
  result: string | null;
  ended_ms: number;
  failed_attempts: number;
  is_dead: boolean;
}

interface LeaseEntry {
  run_id: string;
  lease_id: string;
  attempt: number;
  what: 'begins' | 'ends';
  at_ms: number;
}

export class Judge implements AsyncDisposable {
  readonly #db: Database;

  private constructor(db: Database) {
    this.#db = db;
  }

  static async open(databaseUrl: string): Promise<Judge> {
    const db = openDatabase({ url: databaseUrl, poolSize: 2, queryTimeoutMs: 60_000 });
    await db.query({ name: '', text: leaseLog, values: [] });
    return new Judge(db);
  }

  #rows<T extends object>(text: string): Promise<T[]> {
    return this.#db.query<T>({ name: '', text, values: [] });
  }

  /** Runs that have not ended. */
  async live(): Promise<number> {
    const [row] = await this.#rows<{ n: number }>(
      `select ((select count(*) from punctual.waiting) + (select count(*) from punctual.ready) +
               (select count(*) from punctual.running))::integer as n`,
    );
    return row?.n ?? 0;
  }

  /** What is wrong, each with some examples; nothing when all is well. */
  async verdict(history: History, ledgerFile: string): Promise<string[]> {
    const runs = await this.#rows<BookRun>(`
      select e.run_id::text, e.job_id::text, j.name, e.status::text, e.attempt::integer, e.worker_id, e.result,
        (extract(epoch from e.ended_at) * 1000)::float8 as ended_ms, d.run_id is not null as is_dead,
        (select count(*) from punctual.attempts a where a.segment = e.segment and a.run_id = e.run_id)::integer as failed_attempts
      from punctual.ended_runs e
      join punctual.jobs j using (segment, job_id)
      left join punctual.dead_letters d using (segment, run_id)`);
    const leases = await this.#rows<LeaseEntry>(
      `select run_id::text, lease_id::text, attempt, what, (extract(epoch from at) * 1000)::float8 as at_ms
       from public.lease_log order by n`,
    );
    const ledger = readLedger(ledgerFile);
    const names = await this.#rows<{ job_id: string; name: string }>('select job_id::text, name from punctual.jobs');
    const charges: Record<string, string[]> = {
      'a call was answered as it must not be': history.wrong,
      'a submit is not whole, not there, or there twice': submitsAgainst(history, names),
      'an end is not the one that its job must have': endsAgainst(history, runs),
      'attempts and dead letters do not add up': countsAgainst(runs),
      'a success was not reported by whoever did the work': successesAgainst(runs, ledger),
      'an attempt started twice, too often, or after the end': startsAgainst(runs, ledger),
      'a fence did not grow': fencesAgainst(ledger),
      'an attempt did not see what an earlier one had saved': checkpointsAgainst(ledger),
      'two attempts of a run were at work at once': overlaps(ledger),
      'two leases of a run overlap, or one was used again': leasesAgainst(leases),
      'a cancelled run was leased or started': cancelsAgainst(history, leases, ledger),
      'an invariant is broken': (await checkInvariants(this.#db)).map((violation) => JSON.stringify(violation)),
    };
    return Object.entries(charges).flatMap(([charge, found]) =>
      found.length === 0 ? [] : [`${charge} (${found.length}): ${found.slice(0, mostShown).join(' | ')}`],
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#db.close();
  }
}

function groupBy<T>(all: readonly T[], keyOf: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const one of all) {
    const group = groups.get(keyOf(one));
    if (group === undefined) groups.set(keyOf(one), [one]);
    else group.push(one);
  }
  return groups;
}

function submitsAgainst({ submits }: History, jobs: readonly { job_id: string; name: string }[]): string[] {
  const byName = groupBy(jobs, ({ name }) => name);
  const known = submits.reduce((sum, { fates }) => sum + fates.length, 0);
  const wrong = submits.flatMap(({ key, fates, jobIds }) => {
    const there = fates.map((_, i) => (byName.get(`${key} ${i}`) ?? []).map(({ job_id }) => job_id));
    if (there.some((ids) => ids.length > 1)) return [`${key} is there twice`];
    const ids = there.flat();
    if (jobIds === null) return ids.length === 0 || ids.length === fates.length ? [] : [`${key} is half there`];
    return ids.join() === jobIds.join() ? [] : [`${key} was acknowledged as ${jobIds.join()}, and is ${ids.join()}`];
  });
  return jobs.length <= known ? wrong : [...wrong, `${jobs.length} jobs of ${known} that were asked for`];
}

function endsAgainst({ submits, cancels }: History, runs: readonly BookRun[]): string[] {
  const byName = groupBy(runs, ({ name }) => name);
  const cancelled = new Set(cancels.map(({ jobId }) => jobId));
  const fates = submits.flatMap((submit) =>
    submit.fates.map((fate, i) => ({ name: `${submit.key} ${i}`, fate, isUnknown: submit.jobIds === null })),
  );
  return fates.flatMap(({ name, fate, isUnknown }) => {
    const [run, ...more] = byName.get(name) ?? [];
    if (more.length > 0) return [`${name} has ${more.length + 1} ends`];
    if (run === undefined) return isUnknown ? [] : [`${name} has no end`];
    const isCancelled = run.status === 'CANCELLED' && cancelled.has(run.job_id);
    return run.status === fate || isCancelled ? [] : [`${name} is ${run.status} instead of ${fate}`];
  });
}

function countsAgainst(runs: readonly BookRun[]): string[] {
  return runs.flatMap(({ run_id, status, attempt, failed_attempts, is_dead }) => {
    if (is_dead !== (status === 'FAILED')) return [`${run_id} is ${status} and ${is_dead ? 'a' : 'no'} dead letter`];
    if (status === 'CANCELLED') return [];
    const expected = status === 'SUCCESS' ? attempt - 1 : attempt;
    return failed_attempts === expected
      ? []
      : [`${run_id} is ${status} with attempt ${attempt}, of which ${failed_attempts} failed`];
  });
}

function successesAgainst(runs: readonly BookRun[], ledger: readonly LedgerLine[]): string[] {
  const ends = new Set(
    ledger.filter(({ what }) => what === 'end').map((line) => `${line.run_id} ${line.attempt} ${line.worker}`),
  );
  return runs.flatMap(({ run_id, status, attempt, worker_id }) =>
    status !== 'SUCCESS' || ends.has(`${run_id} ${attempt} ${worker_id}`)
      ? []
      : [`${run_id}: nobody wrote that ${worker_id} ended attempt ${attempt}`],
  );
}

function startsAgainst(runs: readonly BookRun[], ledger: readonly LedgerLine[]): string[] {
  const byId = new Map(runs.map((run) => [run.run_id, run]));
  const toWallClock = Date.now() - monotonicNow();
  const starts = ledger.filter(({ what }) => what === 'start');
  const twice = [...groupBy(starts, ({ run_id, attempt }) => `${run_id} ${attempt}`)].flatMap(([which, lines]) =>
    lines.length > 1 ? [`${which} started ${lines.length} times`] : [],
  );
  const late = starts.flatMap(({ run_id, attempt, worker, at_ms }) => {
    const run = byId.get(run_id);
    if (run === undefined) return [`${run_id} is unknown`];
    if (attempt > run.attempt) return [`${run_id} started attempt ${attempt} and ended with ${run.attempt}`];
    const afterMs = at_ms + toWallClock - run.ended_ms;
    return afterMs > noticeMs ? [`${run_id} started at ${worker} ${Math.round(afterMs)} ms after its end`] : [];
  });
  return [...twice, ...late];
}

function fencesAgainst(ledger: readonly LedgerLine[]): string[] {
  const starts = ledger.filter(({ what }) => what === 'start').sort((a, b) => a.attempt - b.attempt);
  return [...groupBy(starts, ({ run_id }) => run_id)].flatMap(([run_id, lines]) => {
    const fences = lines.map(({ fence = 0 }) => fence);
    return fences.every((fence, i) => i === 0 || fence > (fences[i - 1] as number))
      ? []
      : [`${run_id}: ${fences.join()}`];
  });
}

/** A line `saved` is written when the server has acknowledged it. */
function checkpointsAgainst(ledger: readonly LedgerLine[]): string[] {
  const starts = ledger.filter(({ what, step }) => what === 'start' && step !== undefined);
  const saved = groupBy(
    ledger.filter(({ what }) => what === 'saved'),
    ({ run_id }) => run_id,
  );
  return starts.flatMap(({ run_id, attempt, step = 0 }) => {
    const before = (saved.get(run_id) ?? []).filter((line) => line.attempt < attempt);
    const most = Math.max(0, ...before.map((line) => line.step ?? 0));
    return step < most ? [`${run_id}: attempt ${attempt} began at ${step}, and ${most} was saved`] : [];
  });
}

function leasesAgainst(leases: readonly LeaseEntry[]): string[] {
  const used = leases.filter(({ what }) => what === 'begins').map(({ run_id, lease_id }) => `${run_id} ${lease_id}`);
  const again = [...groupBy(used, (one) => one)].flatMap(([one, all]) =>
    all.length > 1 ? [`${one} was used again`] : [],
  );
  const overlapping = [...groupBy(leases, ({ run_id }) => run_id)].flatMap(([run_id, entries]) => {
    const inTurn = entries.every(({ what, lease_id }, i) =>
      what === 'begins' ? i % 2 === 0 : i % 2 === 1 && entries[i - 1]?.lease_id === lease_id,
    );
    return inTurn && entries.length % 2 === 0 ? [] : [`${run_id}: ${entries.map(({ what }) => what).join()}`];
  });
  return [...again, ...overlapping];
}

/** What was acknowledged as cancelled is never leased again, and what had not started never starts. */
function cancelsAgainst({ cancels }: History, leases: readonly LeaseEntry[], ledger: readonly LedgerLine[]): string[] {
  const begun = groupBy(
    leases.filter(({ what }) => what === 'begins'),
    ({ run_id }) => run_id,
  );
  const started = groupBy(
    ledger.filter(({ what }) => what === 'start'),
    ({ run_id }) => run_id,
  );
  return cancels.flatMap(({ queued, running, at, atMonotonicMs }) => {
    const leased = [...queued, ...running].filter((id) =>
      (begun.get(id) ?? []).some(({ at_ms }) => at_ms > at.getTime()),
    );
    const ran = queued.filter((id) => (started.get(id) ?? []).some(({ at_ms }) => at_ms > atMonotonicMs));
    return [...leased.map((id) => `${id} was leased`), ...ran.map((id) => `${id} started`)];
  });
}

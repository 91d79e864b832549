// Search in the logs of all runs, at #/logs: what is asked for stands in the address, what was found is marked in its line.
import type { LogHit } from '@punctual/contract';
import { type FormEvent, useEffect, useState } from 'react';
import { searchLogs } from '../api_care.ts';
import { settle } from '../live.ts';
import { Empty } from '../parts/empty.tsx';
import { SelectField, TextField } from '../parts/form.tsx';
import { pieces } from '../parts/harmless.ts';
import { JobLink, RunLink, WorkerLink } from '../parts/links.tsx';
import { Pending, ProblemNote } from '../parts/problem.tsx';
import { When } from '../parts/when.tsx';
import { to, useFilters } from '../place.ts';
import './logs.css';

const names = ['q', 'level', 'type', 'queue', 'user_id', 'worker_id', 'job_id', 'run_id', 'from', 'to'] as const;
type Asked = Record<string, string>;

export function LogsPage() {
  const { filters } = useFilters();
  const asked: Asked = Object.fromEntries(
    names.flatMap((name) => {
      const value = filters.get(name);
      return value === null || value === '' ? [] : [[name, value]];
    }),
  );
  return (
    <section>
      <div className="heading">
        <h1>Log search</h1>
      </div>
      <AskForm key={JSON.stringify(asked)} asked={asked} />
      {asked['q'] === undefined ? (
        <Empty title="Words to look for">
          <p>
            All words must stand in one line: <code>timeout payment</code>. In quotes they must stand so:{' '}
            <code>"connection refused"</code>. A star begins a word: <code>pay*</code>. Case does not matter. The last
            seven days are searched unless you say otherwise.
          </p>
        </Empty>
      ) : (
        <Hits key={JSON.stringify(asked)} asked={asked} />
      )}
    </section>
  );
}

function AskForm({ asked }: { asked: Asked }) {
  const [values, setValues] = useState<Asked>(asked);
  const search = (event: FormEvent) => {
    event.preventDefault();
    location.hash = to('logs', Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value.trim()])));
  };
  const field = (name: (typeof names)[number], label: string, placeholder?: string) => (
    <TextField
      label={label}
      path={name}
      value={values[name] ?? ''}
      placeholder={placeholder}
      onChange={(value) => setValues({ ...values, [name]: value })}
    />
  );
  const further = names.slice(4).some((name) => asked[name] !== undefined);
  return (
    <form onSubmit={search}>
      <div className="filter-bar">
        <div className="wide">
          <TextField
            label="Words"
            path="q"
            type="search"
            required
            data-search=""
            value={values['q'] ?? ''}
            placeholder='timeout "connection refused" pay*'
            onChange={(q) => setValues({ ...values, q })}
          />
        </div>
        <SelectField
          label="Level"
          path="level"
          value={values['level'] ?? ''}
          onChange={(level) => setValues({ ...values, level })}
          options={[
            ['', 'Any'],
            ['debug', 'debug'],
            ['info', 'info'],
            ['warn', 'warn'],
            ['error', 'error'],
          ]}
        />
        {field('type', 'Type')}
        {field('queue', 'Queue')}
        <button type="submit">Search</button>
      </div>
      <details className="more-filters" open={further}>
        <summary>More filters</summary>
        <div className="filter-bar">
          {field('user_id', 'User')}
          {field('worker_id', 'Worker')}
          {field('job_id', 'Job id')}
          {field('run_id', 'Run id')}
          {field('from', 'From', '2030-01-31T09:00:00Z')}
          {field('to', 'To', '2030-01-31T17:00:00Z')}
        </div>
      </details>
    </form>
  );
}

interface Found {
  hits: LogHit[];
  next: string | null;
}

/** A page reads a bounded part of the logs: a few empty ones are passed over before the reader is asked. */
const maxEmptyPages = 5;

function Hits({ asked }: { asked: Asked }) {
  const [found, setFound] = useState<Found>();
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(true);
  const more = async (from: Found | undefined, signal: AbortSignal) => {
    setBusy(true);
    const outcome = await settle(read(asked, from, signal));
    if (signal.aborted) return;
    setBusy(false);
    if (outcome.error === undefined) setFound(outcome.data);
    setError(outcome.error);
  };
  useEffect(() => {
    const stop = new AbortController();
    void more(undefined, stop.signal);
    return () => stop.abort();
    // The component is made anew for another question.
    // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  }, []);
  if (found === undefined) return <Pending error={error} />;
  return (
    <>
      {found.hits.length === 0 && found.next === null && (
        <Empty title="Nothing was found">
          <p>
            Try fewer words, part of a word with a star, or an earlier time. Lines can be found some seconds after they
            came.
          </p>
        </Empty>
      )}
      <ol className="hits" aria-label="Lines that were found, newest first">
        {found.hits.map((hit, i) => (
          <Hit key={`${hit.run_id} ${hit.at} ${i}`} hit={hit} />
        ))}
      </ol>
      {error !== undefined && <ProblemNote error={error} />}
      <p className="more" role="status">
        {found.next === null ? (
          found.hits.length > 0 && <span className="faint">That is all.</span>
        ) : (
          <button
            type="button"
            className="plain"
            disabled={busy}
            onClick={() => void more(found, new AbortController().signal)}
          >
            {busy ? 'Looking …' : 'Look further back'}
          </button>
        )}
      </p>
    </>
  );
}

async function read(asked: Asked, before: Found | undefined, signal: AbortSignal): Promise<Found> {
  const hits = [...(before?.hits ?? [])];
  let next = before?.next ?? null;
  for (let page = 0; page < maxEmptyPages; page += 1) {
    const answer = await searchLogs({ ...asked, cursor: next, limit: 100 }, signal);
    hits.push(...answer.hits);
    next = answer.next_cursor;
    if (answer.hits.length > 0 || next === null) break;
  }
  return { hits, next };
}

function Hit({ hit }: { hit: LogHit }) {
  return (
    <li className={hit.level}>
      <p className="hit-line">
        {pieces(hit.text, hit.highlights).map((piece, i) =>
          // Pieces have no identity but their place.
          piece.found ? <mark key={i}>{piece.text}</mark> : <span key={i}>{piece.text}</span>,
        )}
      </p>
      <p className="hit-from">
        <span className="hit-level">{hit.source === 'error' ? 'failed' : hit.level}</span> <When at={hit.at} />
        {' · '}
        <a href={to('runs', hit.run_id)}>{hit.name}</a> run <RunLink id={hit.run_id} short /> attempt{' '}
        {hit.attempt_number}
        {' · '}job <JobLink id={hit.job_id} short />
        {hit.executor_id !== null && (
          <>
            {' · on '}
            <WorkerLink id={hit.executor_id} />
          </>
        )}
      </p>
    </li>
  );
}

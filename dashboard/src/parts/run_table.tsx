// Runs as a table; on a phone each row is a card. The whole row leads to the run, by one link in it.
import type { Run } from '@punctual/contract';
import { RunMark } from './status.tsx';
import { Took, When } from './when.tsx';

export function RunTable({ runs }: { runs: Run[] }) {
  return (
    <table className="runs">
      <caption>Runs, newest first</caption>
      <thead>
        <tr>
          <th scope="col">Status</th>
          <th scope="col">Run</th>
          <th scope="col">Attempt</th>
          <th scope="col">Due</th>
          <th scope="col">Started</th>
          <th scope="col">Ended</th>
          <th scope="col">Worker</th>
        </tr>
      </thead>
      <tbody>
        {runs.map((run) => (
          <Row key={run.run_id} run={run} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ run }: { run: Run }) {
  return (
    <tr>
      <td className="c-status">
        <RunMark run={run} />
      </td>
      <th scope="row" className="c-name">
        <a href={`#/runs/${run.run_id}`} title={run.name}>
          {run.name}
        </a>
        <span className="type">
          {run.type} in {run.queue}
        </span>
        {run.error_message !== null && <span className="error">{firstLine(run.error_message)}</span>}
      </th>
      <td data-label="Attempt">
        {run.attempt_number} <span className="faint">of {run.max_attempts}</span>
      </td>
      <td data-label="Due">
        <When at={run.due_at} />
      </td>
      <td data-label="Started">
        <When at={run.start_time} />
      </td>
      <td data-label="Ended">
        <Ended run={run} />
      </td>
      <td data-label="Worker" className="c-worker">
        {run.executor_id ?? <span className="none">–</span>}
      </td>
    </tr>
  );
}

function Ended({ run }: { run: Run }) {
  return (
    <>
      <When at={run.end_time} />
      {run.start_time !== null && run.end_time !== null && (
        <span className="took">
          took <Took start={run.start_time} end={run.end_time} />
        </span>
      )}
    </>
  );
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}

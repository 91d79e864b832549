// An error in words: what went wrong, and for each wrong field where and how to mend it.
import { ApiProblem } from '../api.ts';

/** In place of what has not arrived: the reason, or that it is being waited for. */
export function Pending({ error }: { error: Error | undefined }) {
  return error === undefined ? <p className="pending">Waiting for the server …</p> : <ProblemNote error={error} />;
}

export function ProblemNote({ error }: { error: Error }) {
  const problem = error instanceof ApiProblem ? error.problem : undefined;
  const errors = problem?.errors ?? [];
  // With a list of what is wrong, the general meaning of the code adds nothing.
  const words = problem?.detail === undefined && errors.length > 0 ? 'The server did not take it:' : error.message;
  return (
    <div className="problem" role="alert">
      <p>{words}</p>
      {errors.length > 0 && (
        <ul>
          {errors.map(({ path, message }) => (
            <li key={`${path} ${message}`}>
              {path !== '' && <code>{path}</code>} {message}
            </li>
          ))}
        </ul>
      )}
      {problem !== undefined && (
        <p className="faint">
          <code>{problem.code}</code>
          {problem.request_id !== undefined && <> · request {problem.request_id}</>}
        </p>
      )}
    </div>
  );
}

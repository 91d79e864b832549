// Says that the server cannot be asked, why, and how old the page is; disappears by itself.
import { ApiProblem } from '../api.ts';
import { useConnection, useNow } from '../live.ts';
import { durationWords } from './time.ts';

export function Banner() {
  const { trouble, answeredAt } = useConnection();
  const now = useNow();
  // The live region is always there: only what appears inside one that exists is read out.
  return (
    <div role="alert" className="banner" hidden={trouble === undefined}>
      {trouble !== undefined && (
        <>
          <strong>{trouble instanceof ApiProblem ? 'The server is not ready.' : 'No connection.'}</strong>{' '}
          {trouble instanceof ApiProblem
            ? (trouble.problem.detail ?? 'Its database does not answer right now.')
            : trouble.message}{' '}
          <span aria-hidden="true">
            {answeredAt === undefined
              ? 'Trying again …'
              : `Trying again; what you see is ${durationWords(now - answeredAt)} old.`}
          </span>
        </>
      )}
    </div>
  );
}

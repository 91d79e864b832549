// The files that a run published, on its page; nothing while there are none.
import { contentAddress, listRunArtifacts } from '../api_artifacts.ts';
import { useLive } from '../live.ts';
import { to } from '../place.ts';
import { sizeWords } from './bits.tsx';
import { When } from './when.tsx';

/** A run may publish while it runs, without a new version of the stats. */
const liveMs = 5_000;

export function RunFiles({ runId }: { runId: string }) {
  const { data } = useLive(`files of ${runId}`, (signal) => listRunArtifacts(runId, signal), liveMs);
  if (data === undefined || data.artifacts.length === 0) return null;
  return (
    <section className="block">
      <h2>Files it published</h2>
      <div className="card scroll" tabIndex={0} role="group" aria-label="Files it published">
        <table className="plain-table">
          <thead>
            <tr>
              <th>Name</th>
              <th>Size</th>
              <th>Attempt</th>
              <th>Published</th>
              <th>Content</th>
            </tr>
          </thead>
          <tbody>
            {data.artifacts.map(({ name, sha256, size, attempt_number, published_at, available }) => (
              <tr key={name}>
                <td className="any-break">{available ? <a href={to('artifacts', sha256)}>{name}</a> : name}</td>
                <td>{sizeWords(size)}</td>
                <td>{attempt_number}</td>
                <td>
                  <When at={published_at} />
                </td>
                <td>
                  {available ? (
                    <a href={contentAddress(sha256)} download={fileName(name)} aria-label={`Download ${name}`}>
                      Download
                    </a>
                  ) : (
                    <span className="none">deleted since</span>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** A name may be a path; a browser saves by its last step. */
export const fileName = (name: string): string => name.split('/').at(-1) ?? name;

// One stored file, at #/artifacts/{sha256}.
import type { Artifact } from '@punctual/contract';
import { contentAddress, deleteArtifact, getArtifact } from '../api_artifacts.ts';
import { Fact, None, sizeWords } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { Command } from '../parts/empty.tsx';
import { useOnce } from '../parts/once.ts';
import { Pending } from '../parts/problem.tsx';
import { fileName } from '../parts/run_files.tsx';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';
import type { PageProps } from '../routes.tsx';
import { useMay } from '../session.ts';

export function ArtifactPage({ params }: PageProps) {
  const sha256 = params['sha256'] ?? '';
  // What is in it never changes, and once it is deleted it must not be asked for again.
  const { data, error } = useOnce(`artifact ${sha256}`, (signal) => getArtifact(sha256, signal));
  return (
    <div className="one">
      <a className="back" href={to('artifacts')}>
        ← All artifacts
      </a>
      {data === undefined ? (
        <>
          <h1>Artifact</h1>
          <Pending error={error} />
        </>
      ) : (
        <View artifact={data} />
      )}
    </div>
  );
}

function View({ artifact }: { artifact: Artifact }) {
  const { sha256, name, size, content_type, created_at, used_at } = artifact;
  const operates = useMay('deleteArtifact');
  const { ask, dialog } = useConfirm();
  const shown = name ?? 'Artifact without a name';
  const remove = () =>
    ask({
      title: `Delete ${shown}?`,
      text: 'Its content cannot be brought back, and runs that published it will say that it is gone. One that a live or recurring job needs is not deleted.',
      verb: 'Delete',
      danger: true,
      act: async () => {
        await deleteArtifact(sha256);
        location.hash = to('artifacts');
      },
    });
  return (
    <>
      <div className="heading">
        <h1>{shown}</h1>
        <div className="actions">
          <a className="button" href={contentAddress(sha256)} download={fileName(name ?? sha256)}>
            Download
          </a>
          {operates && (
            <button type="button" className="plain danger" onClick={remove}>
              Delete
            </button>
          )}
        </div>
      </div>
      <dl className="facts card">
        <Fact name="Size">
          {sizeWords(size)} <span className="faint">({size.toLocaleString()} bytes)</span>
        </Fact>
        <Fact name="Kind">{content_type ?? <None />}</Fact>
        <Fact name="Stored">
          <When at={created_at} />
        </Fact>
        <Fact name="Last asked for">
          <When at={used_at} />
        </Fact>
        <Fact name="SHA-256" wide>
          <code>{sha256}</code>
        </Fact>
      </dl>
      <section className="block">
        <h2>Run it as a program</h2>
        <Command text={`punctual jobs create --binary ${sha256}`} />
      </section>
      {dialog}
    </>
  );
}

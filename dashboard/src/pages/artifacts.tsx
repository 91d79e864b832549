// All stored files, at #/artifacts: programs that jobs run, and what runs published.
import type { Artifact } from '@punctual/contract';
import { contentAddress, listArtifacts } from '../api_artifacts.ts';
import { None, sizeWords } from '../parts/bits.tsx';
import { Empty } from '../parts/empty.tsx';
import { usePages } from '../parts/pages.ts';
import { fileName } from '../parts/run_files.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';

export function ArtifactsPage() {
  const pages = usePages('artifacts', orderOf, async (cursor, signal) => {
    const page = await listArtifacts({ cursor, limit: 50 }, signal);
    return { rows: page.artifacts, next: page.next_cursor };
  });
  return (
    <section>
      <div className="heading">
        <h1>Artifacts</h1>
      </div>
      <Table
        label="Artifacts, newest first"
        pages={pages}
        columns={columns}
        idOf={orderOf}
        empty={
          <Empty title="No file is stored yet" needs="createArtifact" command="punctual artifacts upload ./backup-tool">
            <p>
              An artifact is a file known by its content: a program that jobs run, or one that a run published with{' '}
              <code>ctx.publish</code>.
            </p>
          </Empty>
        }
      />
    </section>
  );
}

/** As the server orders them. */
const orderOf = ({ created_at, sha256 }: Artifact): string => `${created_at} ${sha256}`;

const columns: Column<Artifact>[] = [
  {
    title: 'Artifact',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ name, sha256 }) => (
      <>
        <a className="cell-name clip" href={to('artifacts', sha256)} title={name ?? undefined}>
          {name ?? 'without a name'}
        </a>
        <code className="cell-below clip">{sha256}</code>
      </>
    ),
  },
  { title: 'Size', width: '5.5rem', cell: ({ size }) => sizeWords(size) },
  {
    title: 'Kind',
    width: '11rem',
    phone: 'hidden',
    cell: ({ content_type }) => <span className="clip">{content_type ?? <None />}</span>,
  },
  { title: 'Stored', width: '6.5rem', cell: ({ created_at }) => <When at={created_at} /> },
  { title: 'Last asked for', width: '7rem', phone: 'hidden', cell: ({ used_at }) => <When at={used_at} /> },
  {
    title: 'Content',
    width: '6rem',
    cell: ({ sha256, name }) => (
      <a href={contentAddress(sha256)} download={fileName(name ?? sha256)} aria-label={`Download ${name ?? sha256}`}>
        Download
      </a>
    ),
  },
];

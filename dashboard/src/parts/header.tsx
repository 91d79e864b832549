// The top of every page: name, sections, documentation, and how the server is.
import type { Ready } from '@punctual/contract';
import { useConnection } from '../live.ts';
import { Logo } from './logo.tsx';

export function Header({ ready, section }: { ready: Ready | undefined; section: string }) {
  const current = (name: string) => (section === name ? ('page' as const) : undefined);
  return (
    <header className="top">
      <a className="brand" href="#/runs">
        <Logo />
        Punctual
      </a>
      <nav aria-label="Sections">
        <a href="#/runs" aria-current={current('runs')}>
          Runs
        </a>
        <a href="#/workers" aria-current={current('workers')}>
          Workers
        </a>
        <a href="docs">API</a>
        <a href="openapi.json">OpenAPI</a>
      </nav>
      <ServerStatus ready={ready} />
    </header>
  );
}

function ServerStatus({ ready }: { ready: Ready | undefined }) {
  const { trouble } = useConnection();
  const tone = trouble !== undefined ? 'bad' : ready === undefined ? 'quiet' : 'good';
  const word = trouble !== undefined ? 'Not ready' : ready === undefined ? 'Connecting' : 'Ready';
  return (
    <div className="server" title={ready === undefined ? undefined : `Server ${ready.server_id}`}>
      <span className={`mark ${tone}`}>{word}</span>
      {ready !== undefined && (
        <span className="versions">
          {ready.version} · PostgreSQL {ready.database.replace(/^PostgreSQL\s+/i, '')}
        </span>
      )}
    </div>
  );
}

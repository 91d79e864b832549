// The dashboard: header, trouble banner, and the page the address names. Started by index.html.
import { StrictMode, useEffect, useRef } from 'react';
import { createRoot } from 'react-dom/client';
import { getReady } from './api.ts';
import { type Place, useLive, usePlace } from './live.ts';
import { SignedIn } from './pages/login.tsx';
import { RunPage } from './pages/run.tsx';
import { RunsPage } from './pages/runs.tsx';
import { WorkersPage } from './pages/workers.tsx';
import { Banner } from './parts/banner.tsx';
import { Header } from './parts/header.tsx';
import './style.css';

function App() {
  const place = usePlace();
  const ready = useLive('ready', getReady);
  const main = useRef<HTMLElement>(null);
  const where = place.parts.join('/');
  const first = useRef(where);

  // A reader who listens must hear that the page has changed; the first page needs no such help.
  useEffect(() => {
    if (first.current === where) return;
    first.current = where;
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [where]);

  return (
    <>
      <Header ready={ready.data} section={place.parts[0] ?? 'runs'} />
      <Banner />
      <main ref={main} tabIndex={-1}>
        <SignedIn>
          <Page place={place} />
        </SignedIn>
      </main>
    </>
  );
}

function Page({ place }: { place: Place }) {
  const [section = 'runs', id] = place.parts;
  if (section === 'runs' && id !== undefined) return <RunPage key={id} runId={id} />;
  if (section === 'runs') return <RunsPage status={place.query.get('status')} />;
  if (section === 'workers') return <WorkersPage />;
  return (
    <section className="empty">
      <h1>Nothing here</h1>
      <p>
        No page is called <code>{section}</code>. <a href="#/runs">See the runs</a>.
      </p>
    </section>
  );
}

const root = document.getElementById('root');
if (root === null) throw new Error('index.html has no element #root');
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);

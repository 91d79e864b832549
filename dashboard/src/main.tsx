// The dashboard: what is around every page, the trouble banner, and the page the address names. Started by index.html.
import { StrictMode, Suspense, useEffect, useRef, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { useStats } from './live.ts';
import { SignedIn } from './pages/login.tsx';
import { Banner } from './parts/banner.tsx';
import { KeysHelp, useKeys } from './parts/keys.tsx';
import { MayOrSay } from './parts/may.tsx';
import { Pending } from './parts/problem.tsx';
import { SecretOnce } from './parts/secret_once.tsx';
import { Shell } from './parts/shell.tsx';
import { to, usePlace } from './place.ts';
import { findPage } from './routes.tsx';
import './style/base.css';
import './style/shell.css';
import './style/parts.css';
import './style/table.css';
import './style/form.css';
import './style/pages.css';

function App() {
  const place = usePlace();
  const stats = useStats();
  const [help, setHelp] = useState(false);
  useKeys(() => setHelp(true));
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

  const found = findPage(place.parts);
  return (
    <>
      <Shell server={stats?.server} section={place.parts[0] ?? ''} onHelp={() => setHelp(true)} />
      <div className="content">
        <Banner />
        <main ref={main} tabIndex={-1}>
          <SignedIn>
            {found === undefined ? (
              <Nothing where={where} />
            ) : (
              <Suspense fallback={<Pending error={undefined} />}>
                <MayOrSay call={found.needs}>
                  <found.page key={where} params={found.params} query={place.query} />
                </MayOrSay>
              </Suspense>
            )}
          </SignedIn>
        </main>
      </div>
      <SecretOnce />
      {help && <KeysHelp onClose={() => setHelp(false)} />}
    </>
  );
}

function Nothing({ where }: { where: string }) {
  return (
    <section className="empty">
      <h1>Nothing here</h1>
      <p>
        No page is called <code>{where}</code>. <a href={to()}>See the overview</a>.
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

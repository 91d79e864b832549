// Signing in: shown in place of a page when the server asks for a key. The key goes to the server once and is kept nowhere
// here; what stays is a cookie that scripts cannot read.
import type { Session } from '@punctual/contract';
import { type FormEvent, type ReactNode, useEffect, useId, useState } from 'react';
import { createSession, getSession, onSignedOut } from '../api.ts';
import { useRefresh } from '../live.ts';
import { ProblemNote } from '../parts/problem.tsx';
import { isKnown, setSession } from '../session.ts';

/** Its children while the server answers; the form when it asks for a key. */
export function SignedIn({ children }: { children: ReactNode }) {
  const [isOut, setIsOut] = useState(false);
  useEffect(
    () =>
      onSignedOut(() => {
        setSession(undefined);
        setIsOut(true);
      }),
    [],
  );
  useEffect(() => {
    const stop = new AbortController();
    getSession(stop.signal).then(setSession, () => {});
    return () => stop.abort();
  }, []);
  // A server that could not be asked is asked again: until it has said who we are, nothing can be done.
  useRefresh(() => {
    if (!isKnown()) getSession(new AbortController().signal).then(setSession, () => {});
  });
  if (!isOut) return children;
  return (
    <LoginPage
      onDone={(opened) => {
        setSession(opened);
        setIsOut(false);
      }}
    />
  );
}

function LoginPage({ onDone }: { onDone: (session: Session) => void }) {
  const id = useId();
  const [key, setKey] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      onDone(await createSession(key));
    } catch (wrong) {
      setError(wrong instanceof Error ? wrong : new Error(String(wrong)));
      setBusy(false);
    }
  };

  return (
    <section className="empty">
      <h1>Sign in</h1>
      <p>
        This server asks for an API key; <code>punctual keys create</code> makes one.
      </p>
      <form className="login" onSubmit={(event) => void submit(event)}>
        <label htmlFor={`${id}-key`}>API key</label>
        <input
          id={`${id}-key`}
          type="password"
          value={key}
          onChange={(event) => setKey(event.target.value)}
          required
          maxLength={200}
          autoComplete="current-password"
          spellCheck={false}
        />
        <button type="submit" disabled={busy}>
          Sign in
        </button>
        {error !== undefined && <ProblemNote error={error} />}
      </form>
    </section>
  );
}

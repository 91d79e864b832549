// What the caller may do is shown, what would be refused is not: around a button, or around a page that is for one thing.
import { doors } from '@punctual/contract/plain';
import type { ReactNode } from 'react';
import { to } from '../place.ts';
import { mayOf, type Operation, useMay, useSession } from '../session.ts';
import { Pending } from './problem.tsx';

interface Props {
  /** The call that is made. */
  call: Operation;
  children: ReactNode;
}

export function May({ call, children }: Props) {
  return useMay(call) ? children : null;
}

/** Around a page that is for one thing: says who may, instead. */
export function MayOrSay({ call, children }: { call: Operation | undefined; children: ReactNode }) {
  const session = useSession();
  if (call === undefined || mayOf(session, call)) return children;
  if (session === undefined) return <Pending error={undefined} />;
  const door = doors[call];
  const one = door !== 'open' && door.rows === 'all' && session.user_id !== null;
  return (
    <section className="empty">
      <h1>Not for this key</h1>
      <p>
        You are signed in as {session.role}
        {session.user_id === null ? '' : ` of ${session.user_id}`}. This page is for{' '}
        {door === 'open' ? 'everybody' : `the role ${door.role}`}
        {one ? ', and for keys that are not of one user' : ''}. <a href={to()}>See the overview</a>.
      </p>
    </section>
  );
}

// Names and values of one thing, side by side; and values as JSON.
import type { ReactNode } from 'react';
import { CopyButton } from './empty.tsx';

export function Facts({ children }: { children: ReactNode }) {
  return <dl className="facts card">{children}</dl>;
}

export function Fact({ name, wide = false, children }: { name: string; wide?: boolean; children: ReactNode }) {
  return (
    <div className={wide ? 'wide' : undefined}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function JsonBlock({ title, value }: { title: string; value: unknown }) {
  const text = JSON.stringify(value, null, 2);
  return (
    <section className="block">
      <div className="block-head">
        <h2>{title}</h2>
        <CopyButton text={text} />
      </div>
      <pre tabIndex={0}>{text}</pre>
    </section>
  );
}

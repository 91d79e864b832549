// Small things that several pages show: rows that come at once as a table, facts in pairs, limits and rates in words.
import type { Rate } from '@punctual/contract';
import type { ReactNode } from 'react';
import type { Pages } from './pages.ts';
import { durationWords } from './time.ts';
import './bits.css';

/** A list that comes whole, as the table wants it. */
export function whole<Row>(rows: Row[] | undefined, error?: Error): Pages<Row> {
  return { rows, error, more: false, loadMore: nothing, refresh: nothing };
}

const nothing = (): void => {};

export function Fact({ name, wide, children }: { name: string; wide?: boolean; children: ReactNode }) {
  return (
    <div className={wide === true ? 'wide' : undefined}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export const None = ({ children = '–' }: { children?: ReactNode }) => <span className="none">{children}</span>;

/** `100 in 1 min, 10 at once`. */
export function rateWords(rate: Rate | null): string | undefined {
  if (rate === null) return undefined;
  const burst = rate.burst === undefined || rate.burst === rate.units ? '' : `, ${rate.burst} at once`;
  return `${rate.units.toLocaleString()} in ${durationWords(rate.per_ms)}${burst}`;
}

export const count = (n: number, one: string, many = `${one}s`): string =>
  `${n.toLocaleString()} ${n === 1 ? one : many}`;

/** `812 B`, `1.4 kB`, `25 MB`. */
export function sizeWords(bytes: number): string {
  const power = bytes < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** power;
  return `${power === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)} ${['B', 'kB', 'MB', 'GB', 'TB'][power]}`;
}

/** Any JSON, to be read. */
export function JsonBlock({ title, value }: { title: string; value: unknown }) {
  return (
    <section>
      <h2>{title}</h2>
      <pre tabIndex={0} aria-label={title}>
        {JSON.stringify(value, null, 2)}
      </pre>
    </section>
  );
}

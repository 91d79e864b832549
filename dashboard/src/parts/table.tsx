// Rows as a table of which only what is in view is drawn: smooth with twenty thousand rows. On a phone each row is a card of
// two lines. All rows are of one height, which the style sheet and this file agree on (`--row`).
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore } from 'react';
import { mayOf, type Operation, useSession } from '../session.ts';
import { maxRows, type Pages } from './pages.ts';
import { Pending } from './problem.tsx';

export interface Column<Row> {
  title: string;
  /** A width of `grid-template-columns`: `7rem`, `minmax(0, 1fr)`. */
  width: string;
  cell: (row: Row) => ReactNode;
  /** It holds buttons: only for those who may make this call. */
  needs?: Operation;
  /** Where it stands on a phone: the main line, the line below, or not at all. */
  phone?: 'main' | 'below' | 'hidden';
}

interface Props<Row> {
  label: string;
  pages: Pages<Row>;
  columns: readonly Column<Row>[];
  idOf: (row: Row) => string;
  empty: ReactNode;
  /** Its rows have buttons: on a phone these take a line of their own. */
  tall?: boolean;
  /** Ids that are chosen; without it rows cannot be chosen. */
  chosen?: { ids: ReadonlySet<string>; set: (ids: ReadonlySet<string>) => void };
}

const narrow = matchMedia('(max-width: 46rem)');
const rowPx = { wide: 56, narrow: 92, tall: 120 };
const beyond = 8;
/** So many rows before the end the next page is asked for: a steady reader never stands there waiting. */
const ahead = 60;

export function Table<Row>({ label, pages, columns: all, idOf, empty, tall = false, chosen }: Props<Row>) {
  const body = useRef<HTMLDivElement>(null);
  const rows = pages.rows ?? [];
  const session = useSession();
  const columns = all.filter(({ needs }) => needs === undefined || mayOf(session, needs));
  const isNarrow = useSyncExternalStore(watchWidth, () => narrow.matches);
  const height = isNarrow ? rowPx[tall ? 'tall' : 'narrow'] : rowPx.wide;
  const { first, last } = useInView(body, rows.length, height);
  const { loadMore, more } = pages;
  useEffect(() => {
    if (more && last >= rows.length - ahead) loadMore();
  }, [more, last, rows.length, loadMore]);

  if (pages.rows === undefined) return <Pending error={pages.error} />;
  if (rows.length === 0 && !more) return empty;
  const template = [...(chosen === undefined ? [] : ['2.2rem']), ...columns.map(({ width }) => width)].join(' ');
  return (
    <div className="table" role="table" aria-label={label} aria-rowcount={more ? -1 : rows.length + 1}>
      <div className="thead" role="row" style={{ gridTemplateColumns: template }}>
        {chosen !== undefined && (
          <div role="columnheader" className="pick">
            <input
              type="checkbox"
              aria-label="Choose all that are loaded"
              checked={rows.length > 0 && rows.every((row) => chosen.ids.has(idOf(row)))}
              onChange={(event) => chosen.set(new Set(event.target.checked ? rows.map(idOf) : []))}
            />
          </div>
        )}
        {columns.map(({ title }) => (
          <div key={title} role="columnheader">
            {title}
          </div>
        ))}
      </div>
      <div ref={body} className="tbody" role="rowgroup" style={{ height: rows.length * height }}>
        {rows.slice(first, last).map((row, i) => (
          <div
            key={idOf(row)}
            role="row"
            aria-rowindex={first + i + 2}
            className="trow"
            style={{ gridTemplateColumns: template, transform: `translateY(${(first + i) * height}px)`, height }}
          >
            {chosen !== undefined && <Pick id={idOf(row)} chosen={chosen} />}
            {columns.map(({ title, cell, phone = 'below' }) => (
              <div key={title} role="cell" className={`on-phone-${phone}`} data-label={title}>
                {cell(row)}
              </div>
            ))}
          </div>
        ))}
      </div>
      <Foot more={more} count={rows.length} error={pages.error} onMore={loadMore} />
    </div>
  );
}

function Pick({ id, chosen }: { id: string; chosen: NonNullable<Props<never>['chosen']> }) {
  const toggle = (on: boolean) => {
    const ids = new Set(chosen.ids);
    if (on) ids.add(id);
    else ids.delete(id);
    chosen.set(ids);
  };
  return (
    <div role="cell" className="pick">
      <input
        type="checkbox"
        aria-label="Choose"
        checked={chosen.ids.has(id)}
        onChange={(event) => toggle(event.target.checked)}
      />
    </div>
  );
}

function Foot({
  more,
  count,
  error,
  onMore,
}: {
  more: boolean;
  count: number;
  error: Error | undefined;
  onMore: () => void;
}) {
  if (error !== undefined) return <Pending error={error} />;
  if (!more) return null;
  if (count >= maxRows)
    return <p className="faint more">The newest {maxRows.toLocaleString()}. Narrow the filter to see older ones.</p>;
  return (
    <p className="more">
      <button type="button" className="plain" onClick={onMore}>
        Look further
      </button>
    </p>
  );
}

function watchWidth(reader: () => void) {
  narrow.addEventListener('change', reader);
  return () => narrow.removeEventListener('change', reader);
}

/** Which rows are in view, some more around them. */
function useInView(body: { current: HTMLElement | null }, count: number, height: number) {
  const [span, setSpan] = useState({ first: 0, last: 30 });
  useLayoutEffect(() => {
    const look = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const first = Math.max(0, Math.floor(-top / height) - beyond);
      const last = Math.max(0, Math.ceil((innerHeight - top) / height) + beyond);
      setSpan((before) => (before.first === first && before.last === last ? before : { first, last }));
    };
    look();
    // What stands above may grow or shrink.
    const watch = new ResizeObserver(look);
    watch.observe(document.body);
    addEventListener('scroll', look, { passive: true });
    addEventListener('resize', look);
    return () => {
      watch.disconnect();
      removeEventListener('scroll', look);
      removeEventListener('resize', look);
    };
  }, [body, count, height]);
  return { first: Math.min(span.first, count), last: Math.min(span.last, count) };
}

// Fields that filter a list. What is written goes into the address once the writer pauses, so that it can be shared.
import { useEffect, useId, useState } from 'react';
import { timeNow, useSettled } from '../live.ts';
import { useFilters } from '../place.ts';
import { instantOf, localTime } from './time.ts';

interface Props {
  name: string;
  label: string;
  wide?: boolean;
  /** `/` leads here. */
  search?: boolean;
  placeholder?: string;
}

export function FilterText({ name, label, wide = false, search = false, placeholder }: Props) {
  const { filters, setFilters } = useFilters();
  const inPlace = filters.get(name) ?? '';
  const [text, setText] = useState(inPlace);
  const settled = useSettled(text);
  const id = useId();
  // The address may change by a link too.
  useEffect(() => setText(inPlace), [inPlace]);
  useEffect(() => setFilters({ [name]: settled.trim() }), [name, settled, setFilters]);
  return (
    <div className={wide ? 'field wide' : 'field'}>
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="search"
        data-search={search ? '' : undefined}
        placeholder={placeholder}
        value={text}
        maxLength={200}
        onChange={(event) => setText(event.target.value)}
      />
    </div>
  );
}

export function FilterSelect({
  name,
  label,
  options,
}: {
  name: string;
  label: string;
  options: readonly (readonly [value: string, words: string])[];
}) {
  const { filters, setFilters } = useFilters();
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <select id={id} value={filters.get(name) ?? ''} onChange={(event) => setFilters({ [name]: event.target.value })}>
        {options.map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
    </div>
  );
}

/** A moment in the address, written in the time zone of the browser. */
export function FilterTime({ name, label }: { name: string; label: string }) {
  const { filters, setFilters } = useFilters();
  const id = useId();
  const inPlace = Date.parse(filters.get(name) ?? '');
  return (
    <div className="field time">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="datetime-local"
        value={Number.isNaN(inPlace) ? '' : localTime(inPlace)}
        onChange={(event) => setFilters({ [name]: instantOf(event.target.value) ?? '' })}
      />
    </div>
  );
}

const hourMs = 3_600_000;
const spans: Record<string, number> = {
  '1h': hourMs,
  '1d': 24 * hourMs,
  '7d': 7 * 24 * hourMs,
  '30d': 30 * 24 * hourMs,
};

/** The filter `days` of the address: how far back. */
export function DaysFilter({ label }: { label: string }) {
  const options = [
    ['', 'at any time'],
    ['1h', 'in the last hour'],
    ['1d', 'in the last day'],
    ['7d', 'in the last week'],
    ['30d', 'in the last 30 days'],
  ] as const;
  return <FilterSelect name="days" label={label} options={options} />;
}

/** The time that the filter `days` stands for. */
export function sinceOf(days: string): string | undefined {
  const span = spans[days];
  return span === undefined ? undefined : new Date(timeNow() - span).toISOString();
}

// Where we are: the part of the address after `#`, its path and its query. Filters live in the query, so that an address can
// be shared. Links are made by `to`, which escapes what names may hold.
import { useCallback, useSyncExternalStore } from 'react';

export interface Place {
  /** The parts of the path: `#/runs/018f…` is ['runs', '018f…']. */
  parts: string[];
  query: URLSearchParams;
}

type Query = Record<string, string | undefined>;

/** The address of a page: `to('runs', id)`, `to('jobs', { tag: 'nightly' })`. */
export function to(...steps: (string | Query)[]): string {
  const path = steps.filter((step) => typeof step === 'string').map((step) => encodeURIComponent(step));
  const query = new URLSearchParams();
  for (const step of steps) {
    if (typeof step === 'string') continue;
    for (const [name, value] of Object.entries(step)) if (value !== undefined && value !== '') query.set(name, value);
  }
  return `#/${path.join('/')}${query.size === 0 ? '' : `?${query}`}`;
}

function watchHash(reader: () => void) {
  addEventListener('hashchange', reader);
  return () => removeEventListener('hashchange', reader);
}

export function usePlace(): Place {
  return readPlace(useSyncExternalStore(watchHash, () => location.hash));
}

function readPlace(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter((part) => part !== '');
  return { parts: parts.map(decoded), query: new URLSearchParams(query) };
}

/** An address that somebody broke is shown as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The filters of this page, and how to change them: the address follows, the history does not grow. */
export function useFilters(): { filters: URLSearchParams; setFilters: (change: Query) => void } {
  const { query } = usePlace();
  const setFilters = useCallback((change: Query) => {
    const now = readPlace(location.hash);
    for (const [name, value] of Object.entries(change)) {
      if (value === undefined || value === '') now.query.delete(name);
      else now.query.set(name, value);
    }
    location.replace(to(...now.parts, Object.fromEntries(now.query)));
  }, []);
  return { filters: query, setFilters };
}

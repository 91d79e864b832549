// The rest of an answer that came in part: while it says so, it is asked for again, some times.
import { useEffect } from 'react';

const everyMs = 2000;
/** A server that has more than it can look at says so for ever. */
const maxTimes = 10;

export function useRest(isPart: boolean, again: () => void): void {
  useEffect(() => {
    if (!isPart) return undefined;
    let left = maxTimes;
    const timer = setInterval(() => {
      left -= 1;
      if (left === 0) clearInterval(timer);
      if (!document.hidden) again();
    }, everyMs);
    return () => clearInterval(timer);
  }, [isPart, again]);
}

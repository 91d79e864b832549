// A moment as a distance from now, with the exact time on hover; and how long something took.
import { useNow } from '../live.ts';
import { distanceWords, durationWords } from './time.ts';

export function When({ at }: { at: string | null }) {
  const now = useNow();
  if (at === null) return <span className="none">–</span>;
  const time = new Date(at);
  return (
    <time dateTime={at} title={time.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' })}>
      {distanceWords(time.getTime(), now)}
    </time>
  );
}

/** From `start` to `end`, or until now. */
export function Took({ start, end }: { start: string; end: string | null }) {
  const now = useNow();
  const until = end === null ? now : Date.parse(end);
  return <>{durationWords(until - Date.parse(start))}</>;
}

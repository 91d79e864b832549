// Conditions that the lists and the operations share: what people choose jobs, runs and dead letters by. The statements
// call the job `j` and the lane `l`.
import { isSealedIn } from './sealed.ts';
import { type Fragment, part } from './sql.ts';

interface OfJob {
  user_id?: string | undefined;
  name?: string | undefined;
  tag?: string | undefined;
}

interface OfLane {
  type?: string | undefined;
  queue?: string | undefined;
}

export function jobConditions({ user_id, name, tag }: OfJob): Fragment[] {
  return [
    ...(user_id === undefined ? [] : [part`j.user_id = ${user_id}`]),
    ...(name === undefined ? [] : [part`j.name = ${name}`]),
    ...(tag === undefined ? [] : [part`${tag} = any (j.tags)`]),
  ];
}

/** `of`: the job, or the lane its run is in. */
export function laneConditions({ type, queue }: OfLane, of: 'j' | 'l'): Fragment[] {
  const [typeOf, queueOf] = of === 'j' ? [part`j.type`, part`j.queue`] : [part`l.type`, part`l.queue`];
  return [
    ...(type === undefined ? [] : [part`${typeOf} = ${type}`]),
    ...(queue === undefined ? [] : [part`${queueOf} = ${queue}`]),
  ];
}

export function textInJob(q: string | undefined): Fragment[] {
  if (q === undefined) return [];
  return [part`(strpos(lower(j.name), lower(${q})) > 0 or ${clearTextIn(part`j.payload`, q)})`];
}

export function textIn(column: Fragment, q: string | undefined): Fragment[] {
  return q === undefined ? [] : [clearTextIn(column, q)];
}

/** What is encrypted holds no text. */
function clearTextIn(column: Fragment, q: string): Fragment {
  return part`(strpos(lower(${column}), lower(${q})) > 0 and not ${isSealedIn(column)})`;
}

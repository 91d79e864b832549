// Turns what is known about a run that has not started into sentences, and guesses when it will start. Pure; what is known
// is gathered by dispatch/explain.ts.
import type { Gate, KeyUse, LaneLimit, WaitReason } from '@punctual/contract';

export interface WaitFacts {
  now_ms: number;
  /** `waiting.reason`; null for a run that is ready. */
  reason: string | null;
  due_ms: number;
  attempt_number: number;
  last_error: string | null;
  pause_note: string | null;
  /** Other runs of its job that have not ended. */
  others: readonly string[];
  needs: readonly { run_id: string; on: string }[];
  /** The key it is filed under, or will ask for a place, and how that is used. */
  key: KeyUse | null;
  /** Of a fair queue: the user whose share is used up. */
  fair: { queue: string; user: string } | null;
  /** What is said below is known of ready runs only. */
  ready: ReadyFacts | null;
}

export interface ReadyFacts {
  queue: string;
  type: string;
  requires: readonly string[];
  gates: readonly Gate[];
  limits: readonly { limit: LaneLimit; holders: readonly string[] }[];
  workers: { alive: number; serving: number; free: number };
  ahead: { better: number; before: number };
  /** Runs of its queue that have started within the last minute. */
  started: number;
}

export interface Explained {
  reasons: WaitReason[];
  estimate: { starts_in_ms: number | null; text: string };
}

export function explainWait(facts: WaitFacts): Explained {
  const reasons = [...waitReasons(facts), ...(facts.ready === null ? [] : readyReasons(facts.ready))];
  if (reasons.length === 0) reasons.push({ code: 'starting', text: 'Nothing holds it back: it is about to start.' });
  return { reasons, estimate: estimate(facts, reasons) };
}

function waitReasons(facts: WaitFacts): WaitReason[] {
  const inWords = duration(facts.due_ms - facts.now_ms);
  const at = new Date(facts.due_ms).toISOString();
  switch (facts.reason) {
    case 'due_later':
      return [{ code: 'not_due', text: `It is due at ${at}, in ${inWords}.` }];
    case 'retry': {
      const why = facts.last_error === null ? '' : ` The attempt before failed: ${facts.last_error}`;
      return [{ code: 'retry', text: `Attempt ${facts.attempt_number} starts at ${at}, in ${inWords}.${why}` }];
    }
    case 'snooze':
      return [{ code: 'snooze', text: `It has put itself off until ${at}, for ${inWords} more.` }];
    case 'paused': {
      const note = facts.pause_note === null ? '' : ` (${facts.pause_note})`;
      return [{ code: 'paused', text: `Its job is paused${note}; resume the job to let it go.` }];
    }
    case 'overlap':
      return [
        {
          code: 'overlap',
          text: 'Another run of its job has not ended, and the job never runs twice at once.',
          run_ids: [...facts.others],
        },
      ];
    case 'dependency':
      return [dependency(facts.needs)];
    case 'limit':
      return limitReasons(facts);
    default:
      return facts.key === null ? [] : keyReasons(facts.key, facts.now_ms);
  }
}

function dependency(needs: WaitFacts['needs']): WaitReason {
  const words = { success: 'the success', failure: 'the failure', any_end: 'the end' } as Record<string, string>;
  const some = needs.slice(0, 3).map(({ run_id, on }) => `${words[on] ?? on} of run ${run_id}`);
  const more = needs.length > some.length ? ` and of ${needs.length - some.length} more` : '';
  return {
    code: 'dependency',
    text: `It waits for ${some.join(', ')}${more}.`,
    run_ids: needs.map((need) => need.run_id),
  };
}

function limitReasons({ key, fair, now_ms }: WaitFacts): WaitReason[] {
  if (fair !== null)
    return [
      {
        code: 'fair_share',
        text: `The queue ${fair.queue} is shared fairly, and ${fair.user === '' ? 'runs without a user have' : `user ${fair.user} has`} as many runs ready as its share.`,
      },
    ];
  if (key === null) return [];
  const reasons = keyReasons(key, now_ms);
  if (reasons.length > 0) return reasons;
  const text = `It waits for a place under ${nameOf(key)}, behind others or until the next look.`;
  return [{ code: 'key_limit', text, run_ids: key.holders.slice(0, 10) }];
}

function nameOf({ key, source }: KeyUse): string {
  return `key ${key}${source === 'default' ? ' (by the default limit)' : ''}`;
}

/** Why a key has no room now. */
function keyReasons(key: KeyUse, now_ms: number): WaitReason[] {
  const name = nameOf(key);
  const texts: string[] = [];
  if (key.blocked_until !== null && Date.parse(key.blocked_until) > now_ms)
    texts.push(`A target asked for a rest: nothing of ${name} starts before ${key.blocked_until}.`);
  if (key.max_concurrency !== null && key.in_use >= key.max_concurrency)
    texts.push(`The limit of ${name} is reached: ${key.in_use} of ${key.max_concurrency} at once.`);
  if (key.tokens !== null && key.tokens < 1) texts.push(`The rate of ${name} is used up for now.`);
  return texts.map((text) => ({ code: 'key_limit', text, run_ids: key.holders.slice(0, 10) }));
}

function readyReasons(facts: ReadyFacts): WaitReason[] {
  const { gates, limits, ahead } = facts;
  const reasons: WaitReason[] = gates.map(gateReason);
  for (const { limit, holders } of limits) reasons.push(...laneLimitReasons(limit, holders));
  const worker = workerReason(facts);
  if (worker !== null) reasons.push(worker);
  if (ahead.better > 0)
    reasons.push({
      code: 'behind',
      text: `${count(ahead.better, 'run')} of its queue with a higher priority ${ahead.better === 1 ? 'is' : 'are'} ahead.`,
    });
  if (ahead.before > 0)
    reasons.push({ code: 'behind', text: `${count(ahead.before, 'run')} of the same priority came before it.` });
  return reasons;
}

function gateReason({ kind, name, state, author, note, changed_at }: Gate): WaitReason {
  const by = author === null ? '' : ` by ${author}`;
  const why = note === null ? '' : `: ${note}`;
  const text = `The gate of ${kind} ${name} ${state === 'drop' ? 'drops runs' : 'is held'}${by} since ${changed_at}${why}.`;
  return { code: 'gate', text, since: changed_at };
}

function laneLimitReasons(limit: LaneLimit, holders: readonly string[]): WaitReason[] {
  const code = limit.kind === 'queue' ? 'queue_limit' : 'type_limit';
  const reasons: WaitReason[] = [];
  if (limit.max_concurrency !== null && limit.running >= limit.max_concurrency)
    reasons.push({
      code,
      text: `The limit of ${limit.kind} ${limit.name} is reached: ${limit.running} of ${limit.max_concurrency} at once.`,
      run_ids: [...holders],
    });
  if (limit.tokens !== null && limit.tokens < 1)
    reasons.push({ code, text: `The rate of ${limit.kind} ${limit.name} is used up for now.` });
  return reasons;
}

function workerReason({ workers, queue, type, requires }: ReadyFacts): WaitReason | null {
  const labels = requires.length === 0 ? '' : ` with the label${requires.length > 1 ? 's' : ''} ${requires.join(', ')}`;
  if (workers.alive === 0)
    return {
      code: 'no_worker',
      text: `No worker is connected; start one for type ${type} in queue ${queue}${labels}.`,
    };
  if (workers.serving === 0) {
    const none = workers.alive === 1 ? 'The only worker does not serve' : `None of ${workers.alive} workers serves`;
    return { code: 'no_worker', text: `${none} type ${type} in queue ${queue}${labels}.` };
  }
  if (workers.free > 0) return null;
  return {
    code: 'workers_busy',
    text: `All slots of the ${count(workers.serving, 'worker')} that could run it are taken.`,
  };
}

/** What no rate can tell: somebody has to do something, or something else has to happen first. */
const open = new Set([
  'paused',
  'gate',
  'no_worker',
  'dependency',
  'overlap',
  'key_limit',
  'fair_share',
  'queue_limit',
  'type_limit',
]);

function estimate({ due_ms, now_ms, ready }: WaitFacts, reasons: readonly WaitReason[]): Explained['estimate'] {
  const blocking = reasons.find(({ code }) => open.has(code));
  if (blocking !== undefined) return { starts_in_ms: null, text: 'When it starts cannot be told: see the reasons.' };
  if (ready === null) {
    const ms = Math.max(0, Math.round(due_ms - now_ms));
    return { starts_in_ms: ms, text: `It can start in ${duration(ms)}.` };
  }
  const ahead = ready.ahead.better + ready.ahead.before;
  if (ahead === 0 && ready.workers.free > 0) return { starts_in_ms: 0, text: 'It starts at once.' };
  if (ready.started === 0)
    return {
      starts_in_ms: null,
      text: 'No run of its queue has started within the last minute: there is no rate to go by.',
    };
  const ms = Math.round(((ahead + 1) / ready.started) * 60_000);
  return {
    starts_in_ms: ms,
    text: `About ${duration(ms)}: ${count(ready.started, 'run')} of its queue started within the last minute.`,
  };
}

function count(n: number, noun: string): string {
  return `${n.toLocaleString('en')} ${noun}${n === 1 ? '' : 's'}`;
}

function duration(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172_800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86_400)} days`;
}

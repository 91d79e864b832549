// Operations in words: what would be done, what is being done, and how far it is. Used by `punctual operations`.
import type {
  ActsOn,
  CreateOperation,
  Operation,
  OperationAction,
  OperationFilter,
  OperationPlan,
} from '@punctual/contract';

export function countWords({ count = 0, exact = true, acts_on }: OperationPlan): string {
  return `${exact ? '' : 'at least '}${count} ${nounOf(acts_on, exact ? count : 2)}`;
}

function nounOf(actsOn: ActsOn, count: number): string {
  return count === 1 ? actsOn.slice(0, -1) : actsOn;
}

export function planWords(action: OperationAction, plan: OperationPlan): string {
  const sample = plan.sample ?? [];
  const rest = (plan.count ?? 0) - sample.length;
  const ids = sample.map((id) => `\n  ${id}`).join('');
  return `${action}: ${countWords(plan)} fit${plan.count === 1 && plan.exact === true ? 's' : ''}${ids}${rest > 0 ? '\n  …' : ''}`;
}

export function askWords({ action, priority, queue }: CreateOperation): string {
  if (action === 'reprioritise') return `Give priority ${priority} to`;
  if (action === 'move_queue') return `Move to queue ${queue}:`;
  return `${action.charAt(0).toUpperCase()}${action.slice(1)}`;
}

export function progressWords({ acts_on, matched, done, looked_at, skipped_reasons }: Operation): string {
  const skipped = skipped_reasons.map(({ reason, count }) => `, ${count} skipped (${reason})`).join('');
  return `${done} of ${matched} ${nounOf(acts_on, matched)} done${skipped}; ${looked_at} looked at`;
}

export function actionWords({ action, priority, queue }: Operation): string {
  const target = priority ?? queue;
  return target === null ? action : `${action} ${target}`;
}

export function filterWords(filter: OperationFilter): string {
  return Object.entries(filter)
    .map(([name, value]) => (name === 'all' ? 'all' : `${name}=${String(value)}`))
    .join(' ');
}

// What an operation may ask for: which conditions go with which action, and whether it acts on jobs or on runs. Pure;
// called by the API before anything is counted or done, and when an operation is shown.
import type { ActsOn, CreateOperation, FieldError, OperationAction, OperationFilter } from '@punctual/contract';

export interface PreparedOperation {
  action: OperationAction;
  filter: OperationFilter;
  priority: number | null;
  queue: string | null;
  user_id: string | null;
  note: string | null;
}

type Status = NonNullable<OperationFilter['status']>;

const statuses: Record<OperationAction, readonly Status[]> = {
  cancel: ['SCHEDULED', 'PAUSED', 'QUEUED', 'RUNNING'],
  retry: ['QUEUED', 'FAILED'],
  redrive: ['FAILED'],
  reprioritise: ['SCHEDULED', 'PAUSED'],
  move_queue: ['SCHEDULED', 'PAUSED'],
};

const failures: readonly string[] = ['failed', 'timed_out', 'run_timed_out', 'lost', 'cannot_decrypt'];

export function actsOn(action: OperationAction, { status }: OperationFilter): ActsOn {
  if (action === 'retry' || action === 'redrive') return 'runs';
  return status === 'QUEUED' || status === 'RUNNING' ? 'runs' : 'jobs';
}

export function prepareOperation(asked: CreateOperation): PreparedOperation | { refused: FieldError[] } {
  const { action, filter, priority, queue, user_id, note } = asked;
  const refused = [...checkTarget(asked), ...checkConditions(filter), ...checkStatus(asked), ...checkReason(asked)];
  if (refused.length > 0) return { refused };
  return {
    action,
    filter,
    priority: priority ?? null,
    queue: queue ?? null,
    user_id: user_id ?? null,
    note: note ?? null,
  };
}

function checkTarget({ action, priority, queue }: CreateOperation): FieldError[] {
  const errors: FieldError[] = [];
  if (action === 'reprioritise' && priority === undefined)
    errors.push({ path: 'priority', message: 'is missing: reprioritise needs the new one' });
  if (action !== 'reprioritise' && priority !== undefined)
    errors.push({ path: 'priority', message: `goes with the action reprioritise only, not with ${action}` });
  if (action === 'move_queue' && queue === undefined)
    errors.push({ path: 'queue', message: 'is missing: move_queue needs the new one; filter.queue is the old one' });
  if (action !== 'move_queue' && queue !== undefined)
    errors.push({
      path: 'queue',
      message: `goes with the action move_queue only; to choose by queue use filter.queue`,
    });
  return errors;
}

/** Doing something to everything by leaving something out must not be possible. */
function checkConditions({ all, ...conditions }: OperationFilter): FieldError[] {
  const given = Object.keys(conditions);
  if (given.length === 0 && all !== true)
    return [{ path: 'filter', message: 'holds no condition; `all: true` says that everything is meant' }];
  if (given.length > 0 && all === true)
    return [{ path: 'filter.all', message: `contradicts the other conditions (${given.join(', ')}); leave one out` }];
  const { created_after, created_before } = conditions;
  if (created_after !== undefined && created_before !== undefined)
    if (Date.parse(created_after) >= Date.parse(created_before))
      return [{ path: 'filter.created_after', message: 'must be before created_before' }];
  return [];
}

function checkStatus({ action, filter: { status } }: CreateOperation): FieldError[] {
  if (status === undefined || statuses[action].includes(status)) return [];
  return [{ path: 'filter.status', message: `must be one of ${statuses[action].join(', ')} for ${action}` }];
}

function checkReason({ action, filter: { status, reason } }: CreateOperation): FieldError[] {
  if (reason === undefined) return [];
  const path = 'filter.reason';
  if (action === 'redrive' || action === 'retry') {
    if (!failures.includes(reason))
      return [{ path, message: `must be one of ${failures.join(', ')} for ${action}: why the run failed` }];
    return status === 'QUEUED' ? [{ path, message: 'goes with runs that failed, not with status QUEUED' }] : [];
  }
  if (action !== 'cancel' || status !== 'QUEUED')
    return [{ path, message: 'goes with retry and redrive, and with cancel of status QUEUED' }];
  return failures.includes(reason) ? [{ path, message: 'is not a reason to wait: those runs have failed' }] : [];
}

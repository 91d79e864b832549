// Who may call a route: the roles of keys, and whose rows a route is about. Every route says it (route.ts); the server
// heeds it in one place, and OpenAPI shows it. Pure.

/** What a key may do; each role of the first four may do what the one before it may. */
export const roles = ['viewer', 'submitter', 'operator', 'admin', 'worker'] as const;
export type Role = (typeof roles)[number];

/** What the audit log knows. */
export const auditNouns = [
  'alert',
  'alert_rule',
  'artifact',
  'backfill',
  'breaker',
  'calendar',
  'channel',
  'dead_letter',
  'delivery',
  'gate',
  'job',
  'key',
  'limit',
  'operation',
  'queue',
  'retention',
  'run',
  'session',
  'silence',
  'subscription',
  'worker',
  'workflow',
] as const;
export type AuditNoun = (typeof auditNouns)[number];

export type Access =
  /** No key is asked for: nothing is told, or the request itself carries what opens it. */
  | 'open'
  | {
      /** The least role; `any` for every key. Workers have a role of their own, which only `admin` has too. */
      readonly role: Role | 'any';
      /**
       * own: rows that belong to users; a key with a user meets only that user's, and others are not there for it.
       * shared: what everybody may know.
       * all: about rows of all users, or for all of them; keys with a user are refused.
       */
      readonly rows: 'own' | 'shared' | 'all';
      /** Workers need it too, for what their runs bring and take. */
      readonly workers?: true;
    };

/** Who may call it, of those with a key. */
export type Needed = Exclude<Access, 'open'>;

const ladder: readonly Role[] = ['viewer', 'submitter', 'operator', 'admin'];

export function roleMay(role: Role, needed: Role | 'any'): boolean {
  if (needed === 'any' || role === needed || role === 'admin') return true;
  return needed !== 'worker' && role !== 'worker' && ladder.indexOf(role) >= ladder.indexOf(needed);
}

/** The roles that may call a route. */
export function rolesThatMay({ role: needed, workers }: Pick<Needed, 'role' | 'workers'>): readonly Role[] {
  return roles.filter((role) => roleMay(role, needed) || (workers === true && role === 'worker'));
}

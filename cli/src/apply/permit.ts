// May the key of this client do what a plan asks for? Asked before anything is done, so that nothing is half done. Pure.
import { type Route, roleMay, rolesThatMay, routes, type Session } from '@punctual/contract';
import { jobKind } from './job_kind.ts';
import type { Kind, SettingKind } from './kind.ts';
import type { Step } from './plan.ts';

export interface Wish {
  /** What it is for: "change gates". */
  what: string;
  route: Route;
}

export function readWishes(kinds: Iterable<Kind>): Wish[] {
  return [...kinds].map((kind) => ({
    what: `see ${spoken(kind)}`,
    route: kind === jobKind ? routes.listJobs : (kind as SettingKind).routes.list,
  }));
}

export function writeWishes(steps: readonly Step[]): Wish[] {
  return steps.map(({ kind, action }) => ({ what: `change ${spoken(kind)}`, route: routeOf(kind, action) }));
}

function routeOf(kind: Kind, action: Step['action']): Route {
  if (kind === jobKind)
    return { create: routes.createJob, update: routes.updateJob, replace: routes.cancelJob, delete: routes.cancelJob }[
      action
    ];
  const { put, remove } = (kind as SettingKind).routes;
  return action === 'delete' ? remove : put;
}

const spoken = ({ section }: Kind): string => section.replace('_', ' ');

/** A sentence for each kind of thing that the key may not do. */
export function refusals({ role, user_id }: Pick<Session, 'role' | 'user_id'>, wishes: readonly Wish[]): string[] {
  const sentences = wishes.flatMap(({ what, route: { access } }) => {
    if (access === 'open') return [];
    if (!roleMay(role, access.role))
      return [`to ${what} needs a key with the role ${rolesThatMay(access).join(' or ')}; yours is ${role}`];
    if (access.rows === 'all' && user_id !== null)
      return [`to ${what} concerns all users, and your key belongs to the user ${user_id}`];
    return [];
  });
  return [...new Set(sentences)];
}

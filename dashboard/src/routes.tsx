// Every page of the dashboard, a line each, and the sections of the navigation. A section appears once it has a page.
import type { ComponentType } from 'react';
import { RunPage } from './pages/run.tsx';
import { RunsPage } from './pages/runs.tsx';
import { WorkersPage } from './pages/workers.tsx';

export interface PageProps {
  /** The parts of the path that the route leaves open, by their names. */
  params: Record<string, string>;
  query: URLSearchParams;
}

interface Route {
  /** Steps with a colon are open: `runs/:run_id`. */
  path: string;
  page: ComponentType<PageProps>;
}

export const routes: Route[] = [
  { path: 'runs', page: RunsPage },
  { path: 'runs/:run_id', page: RunPage },
  { path: 'workers', page: WorkersPage },
];

export interface Section {
  /** The first step of its path; '' is the first page. */
  path: string;
  name: string;
  /** After `g` it leads here. */
  key: string;
  group: 'Work' | 'Flow' | 'Look' | 'Rules';
}

const allSections: Section[] = [
  { path: '', name: 'Overview', key: 'o', group: 'Work' },
  { path: 'jobs', name: 'Jobs', key: 'j', group: 'Work' },
  { path: 'runs', name: 'Runs', key: 'r', group: 'Work' },
  { path: 'workflows', name: 'Workflows', key: 'f', group: 'Work' },
  { path: 'queues', name: 'Queues', key: 'q', group: 'Flow' },
  { path: 'gates', name: 'Gates', key: 'g', group: 'Flow' },
  { path: 'limits', name: 'Limits', key: 'i', group: 'Flow' },
  { path: 'workers', name: 'Workers', key: 'w', group: 'Flow' },
  { path: 'dead-letters', name: 'Dead letters', key: 'd', group: 'Look' },
  { path: 'logs', name: 'Log search', key: 'l', group: 'Look' },
  { path: 'forecast', name: 'Forecast', key: 't', group: 'Look' },
  { path: 'operations', name: 'Operations', key: 'p', group: 'Look' },
  { path: 'alerts', name: 'Alerts', key: 'a', group: 'Look' },
  { path: 'calendars', name: 'Calendars', key: 'c', group: 'Rules' },
  { path: 'retention', name: 'Retention', key: 'n', group: 'Rules' },
  { path: 'keys', name: 'API keys', key: 'k', group: 'Rules' },
];

export const sections = allSections.filter(({ path }) => routes.some((route) => route.path === path));

export interface Found {
  page: ComponentType<PageProps>;
  params: Record<string, string>;
}

/** The page of a path; of two that fit, the one listed first. */
export function findPage(parts: readonly string[]): Found | undefined {
  for (const { path, page } of routes) {
    const params = match(path === '' ? [] : path.split('/'), parts);
    if (params !== undefined) return { page, params };
  }
  return undefined;
}

function match(steps: readonly string[], parts: readonly string[]): Record<string, string> | undefined {
  if (steps.length !== parts.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, step] of steps.entries()) {
    const part = parts[i] ?? '';
    if (step.startsWith(':')) params[step.slice(1)] = part;
    else if (step !== part) return undefined;
  }
  return params;
}

// Every page of the dashboard, a line each, and the sections of the navigation. Some are for certain roles only.
import { type ComponentType, lazy } from 'react';
import { JobPage } from './pages/job.tsx';
import { EditJobPage, NewJobPage } from './pages/job_form.tsx';
import { JobsPage } from './pages/jobs.tsx';
import { OverviewPage } from './pages/overview.tsx';
import { RunPage } from './pages/run.tsx';
import { RunsPage } from './pages/runs.tsx';
import type { Operation } from './session.ts';

export interface PageProps {
  /** The parts of the path that the route leaves open, by their names. */
  params: Record<string, string>;
  query: URLSearchParams;
}

interface Route {
  /** Steps with a colon are open: `runs/:run_id`. */
  path: string;
  page: ComponentType<PageProps>;
  /** What it is for: who may not is told so instead. */
  needs?: Operation;
}

/** A page that is loaded when it is first asked for: few people need all of them. */
function later<Name extends string>(load: () => Promise<Record<Name, ComponentType<PageProps>>>, name: Name) {
  return lazy(async () => ({ default: (await load())[name] }));
}

export const routes: Route[] = [
  { path: '', page: OverviewPage },
  { path: 'jobs', page: JobsPage },
  { path: 'jobs/new', needs: 'createJob', page: NewJobPage },
  { path: 'jobs/:job_id', page: JobPage },
  { path: 'jobs/:job_id/edit', needs: 'updateJob', page: EditJobPage },
  { path: 'runs', page: RunsPage },
  { path: 'runs/:run_id', page: RunPage },
  { path: 'workflows', page: later(() => import('./pages/workflows.tsx'), 'WorkflowsPage') },
  {
    path: 'workflows/new',
    needs: 'createWorkflow',
    page: later(() => import('./pages/workflow_new.tsx'), 'NewWorkflowPage'),
  },
  { path: 'workflows/:workflow_id', page: later(() => import('./pages/workflow.tsx'), 'WorkflowPage') },
  { path: 'queues', page: later(() => import('./pages/queues.tsx'), 'QueuesPage') },
  { path: 'queues/:name', page: later(() => import('./pages/queue.tsx'), 'QueuePage') },
  { path: 'gates', page: later(() => import('./pages/gates.tsx'), 'GatesPage') },
  { path: 'limits', page: later(() => import('./pages/limits.tsx'), 'LimitsPage') },
  { path: 'workers', page: later(() => import('./pages/workers.tsx'), 'WorkersPage') },
  { path: 'workers/:worker_id', page: later(() => import('./pages/worker.tsx'), 'WorkerPage') },
  { path: 'dead-letters', page: later(() => import('./pages/dead_letters.tsx'), 'DeadLettersPage') },
  { path: 'dead-letters/:run_id', page: later(() => import('./pages/dead_letter.tsx'), 'DeadLetterPage') },
  { path: 'logs', page: later(() => import('./pages/logs.tsx'), 'LogsPage') },
  { path: 'forecast', page: later(() => import('./pages/forecast.tsx'), 'ForecastPage') },
  { path: 'operations', page: later(() => import('./pages/operations.tsx'), 'OperationsPage') },
  { path: 'operations/:operation_id', page: later(() => import('./pages/operation.tsx'), 'OperationPage') },
  { path: 'alerts', needs: 'listAlerts', page: later(() => import('./pages/alerts.tsx'), 'AlertsPage') },
  {
    path: 'alerts/rules',
    needs: 'listAlertRules',
    page: later(() => import('./pages/alert_rules.tsx'), 'AlertRulesPage'),
  },
  {
    path: 'alerts/rules/:name',
    needs: 'getAlertRule',
    page: later(() => import('./pages/alert_rule.tsx'), 'AlertRulePage'),
  },
  {
    path: 'alerts/new-rule',
    needs: 'putAlertRule',
    page: later(() => import('./pages/alert_rule.tsx'), 'NewAlertRulePage'),
  },
  { path: 'alerts/channels', needs: 'listChannels', page: later(() => import('./pages/channels.tsx'), 'ChannelsPage') },
  {
    path: 'alerts/subscriptions',
    needs: 'listSubscriptions',
    page: later(() => import('./pages/subscriptions.tsx'), 'SubscriptionsPage'),
  },
  { path: 'alerts/silences', needs: 'listSilences', page: later(() => import('./pages/silences.tsx'), 'SilencesPage') },
  {
    path: 'alerts/deliveries',
    needs: 'listDeliveries',
    page: later(() => import('./pages/deliveries.tsx'), 'DeliveriesPage'),
  },
  { path: 'artifacts', needs: 'listArtifacts', page: later(() => import('./pages/artifacts.tsx'), 'ArtifactsPage') },
  { path: 'artifacts/:sha256', page: later(() => import('./pages/artifact.tsx'), 'ArtifactPage') },
  { path: 'calendars', page: later(() => import('./pages/calendars.tsx'), 'CalendarsPage') },
  { path: 'calendars/:name', page: later(() => import('./pages/calendar.tsx'), 'CalendarPage') },
  // Not below `calendars`: a calendar may be called `new`.
  { path: 'new-calendar', needs: 'putCalendar', page: later(() => import('./pages/calendar.tsx'), 'NewCalendarPage') },
  { path: 'retention', page: later(() => import('./pages/retention.tsx'), 'RetentionPage') },
  { path: 'keys', needs: 'listKeys', page: later(() => import('./pages/keys.tsx'), 'KeysPage') },
  { path: 'audit', needs: 'listAudit', page: later(() => import('./pages/audit.tsx'), 'AuditPage') },
];

export interface Section {
  /** The first step of its path; '' is the first page. */
  path: string;
  name: string;
  /** After `g` it leads here. */
  key: string;
  group: 'Work' | 'Flow' | 'Look' | 'Rules';
  /** What its page asks for: only for those who may. */
  needs?: Operation;
}

export const sections: Section[] = [
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
  { path: 'alerts', name: 'Alerts', key: 'a', group: 'Look', needs: 'listAlerts' },
  { path: 'artifacts', name: 'Artifacts', key: 'x', group: 'Look', needs: 'listArtifacts' },
  { path: 'calendars', name: 'Calendars', key: 'c', group: 'Rules' },
  { path: 'retention', name: 'Settings', key: 'n', group: 'Rules' },
  { path: 'keys', name: 'API keys', key: 'k', group: 'Rules', needs: 'listKeys' },
  { path: 'audit', name: 'Audit log', key: 'u', group: 'Rules', needs: 'listAudit' },
];

export interface Found {
  page: ComponentType<PageProps>;
  needs?: Operation;
  params: Record<string, string>;
}

/** The page of a path; of two that fit, the one listed first. */
export function findPage(parts: readonly string[]): Found | undefined {
  for (const { path, ...route } of routes) {
    const params = match(path === '' ? [] : path.split('/'), parts);
    if (params !== undefined) return { ...route, params };
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

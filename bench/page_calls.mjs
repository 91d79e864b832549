// What each page of the dashboard asks for before it can show something: the GETs of dashboard/src/pages, with the filters
// that people set. The measure `pages` times them, the test of lists at scale explains them; the browser tests see that no
// page asks anything that is not here.

/** `of` are ids and names of things that there are; the test leaves out what it has none of. */
export function pageCalls(of) {
  const since = new Date(Date.now() - 7 * 86_400_000).toISOString();
  const list = (page, path, ...queries) => ({ page, gets: [path, ...queries.map((query) => join(path, query))] });
  const one = (page, ...gets) => ({ page, gets });
  return [
    one('every page', 'session', 'stats'),
    one('overview', 'forecast?hours=1'),
    list('jobs', 'jobs?limit=100', ...jobFilters(of, since)),
    one('job, once', `jobs/${of.job}`, `jobs/${of.job}/runs?limit=100`),
    one(
      'job, recurring',
      `jobs/${of.recurring}`,
      `jobs/${of.recurring}/runs?limit=100`,
      `jobs/${of.recurring}/occurrences?limit=20`,
    ),
    list('runs', 'runs?limit=100', ...runFilters(of, since)),
    ...[of.failed, of.running, of.waiting, of.ready, of.blocked].map(runPage),
    list(
      'workflows',
      'workflows?limit=50',
      'state=RUNNING',
      'state=WAITING',
      'state=FAILED',
      'state=CANCELLED',
      'name=flow-1',
    ),
    one('workflow', `workflows/${of.workflow}`, `workflows/${of.workflow}/steps/fetch`),
    one('queues', 'queues'),
    one('queue', 'queues/queue-1', 'gates'),
    one('gates', 'gates', 'breakers'),
    one('limits', 'limits/lanes', 'limits?limit=100', 'limits/fair', 'limits/key/customer-1'),
    one('workers', 'workers'),
    one('worker', 'runs?worker_id=worker-1&limit=50', 'runs?worker_id=worker-999&limit=50'),
    list('dead letters', 'dead-letters?limit=50', ...letterFilters),
    list('dead letters in groups', 'dead-letters/groups', ...letterFilters),
    one('dead letter', `dead-letters/${of.letter}`),
    list('log search', 'logs/search?q=payment', 'q=retried+976', 'q=nowhere', 'q=accepted&type=type-3', 'level=warn'),
    list('forecast', 'forecast?hours=24', 'hours=168', 'queue=hourly', 'type=type-3'),
    one('forecast of a minute', `forecast/minute?at=${encodeURIComponent(of.minute)}`),
    list('operations', 'operations?limit=50'),
    one('operation', `operations/${of.operation}`),
    list('alerts', 'alerts?state=firing&limit=100', 'rule=rule-1'),
    list('alerts, lately', 'alerts?state=resolved&limit=50', 'rule=rule-1', 'rule=none'),
    one('alert rules', 'alerts/rules', 'alerts/rules/none', 'alerts/channels'),
    one('silences', 'alerts/silences'),
    one('channels', 'alerts/channels'),
    one('subscriptions', 'events/subscriptions'),
    list('deliveries', 'alerts/deliveries?state=dead&limit=50', 'channel=channel-0', 'state=delivered', 'state=due'),
    list('artifacts', 'artifacts?limit=50'),
    one('artifact', `artifacts/${of.artifact}`),
    one('calendars', 'calendars', 'calendars/none', 'calendars/none/jobs'),
    one('settings', 'retention', 'settings'),
    one('keys', 'keys'),
    list(
      'audit log',
      'audit?limit=50',
      'noun=gate',
      'noun=job&id=thing-8',
      'id=thing-8',
      'user_id=user-7',
      'user_id=nobody',
    ),
  ];
}

const runPage = (run) => ({
  page: `run, ${run.is}`,
  gets: ['', '/attempts', '/artifacts', '/checkpoint', '/explain', '/logs'].map((part) => `runs/${run.id}${part}`),
});

function jobFilters(of, since) {
  const statuses = ['pending', 'SCHEDULED', 'PAUSED', 'CANCELLED', 'COMPLETED'].map((status) => `status=${status}`);
  return [
    ...statuses,
    ...[
      'type=type-39',
      'queue=queue-7',
      'user_id=user-0',
      'user_id=user-1999',
      'user_id=nobody',
      'tag=nightly',
      'tag=none',
    ],
    ...[
      'q=order',
      'q=nowhere',
      'name=Job+7+of+type-3',
      `created_after=${since}`,
      'type=type-hourly',
      'unique_key=k',
      'recurring=true',
    ],
    ...['status=CANCELLED&user_id=user-5', 'status=pending&type=type-3', 'status=COMPLETED&q=c77'],
  ];
}

function runFilters(of, since) {
  const statuses = ['BLOCKED', 'QUEUED', 'RUNNING', 'SUCCESS', 'FAILED', 'CANCELLED', 'DROPPED'];
  return [
    ...statuses.map((status) => `status=${status}`),
    ...statuses.map((status) => `status=${status}&type=type-39`),
    ...[
      'type=type-39',
      'queue=queue-7',
      'user_id=user-1999',
      'user_id=nobody',
      'worker_id=worker-3',
      `job_id=${of.recurring}`,
    ],
    ...[`created_after=${since}`, 'status=FAILED&user_id=nobody', 'status=SUCCESS&worker_id=worker-3'],
  ];
}

const letterFilters = [
  'type=type-3',
  'queue=queue-2',
  'reason=failed',
  'reason=lost',
  'q=ECONNREFUSED',
  'q=nowhere',
  'user_id=user-3',
];

function join(path, query) {
  const [where, first = ''] = path.split('?');
  return `${where}?${new URLSearchParams([...new URLSearchParams(first), ...new URLSearchParams(query)].filter(([name], i, all) => all.findLastIndex(([other]) => other === name) === i))}`;
}

// What the server counts, in base units and with few labels; GET /metrics shows it and docs/metrics.md is made from it. One
// registry per server. Whoever reads it waits for nothing: figures of the whole house are those last read (dispatch/figures.ts).
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { DatabaseClock } from './database_clock.ts';
import { FewLabels } from './few_labels.ts';
import { FastHistogram, type Series } from './histogram.ts';
import { maxNames, type Readings, registerReadings } from './readings.ts';

export type Metrics = ReturnType<typeof openMetrics>;

const short = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const long = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600];
const batch = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

export function openMetrics(readings: Readings) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  registerReadings(registry, readings);
  const databaseClock = new DatabaseClock();
  const clockAhead = new Gauge({
    name: 'punctual_machine_clock_ahead_seconds',
    help: "The clock of the server's machine less the database's, by which everything goes but the times in logs",
    registers: [],
    collect() {
      this.set(databaseClock.machineAheadMs() / 1_000);
    },
  });
  registry.registerMetric(clockAhead);
  const counter = (name: string, help: string): Counter => new Counter({ name, help, registers });
  const by = <Label extends string>(label: Label, name: string, help: string): Counter<Label> =>
    new Counter({ name, help, labelNames: [label], registers });
  const histogram = (name: string, help: string, buckets: number[]): Histogram =>
    new Histogram({ name, help, buckets, registers });
  return {
    registry,
    databaseClock,
    jobsCreated: counter('punctual_jobs_created_total', 'Jobs created'),
    submitBatch: histogram('punctual_submit_batch_jobs', 'Jobs written in one statement', batch),
    runsStarted: counter('punctual_runs_started_total', 'Runs leased to workers'),
    runsEnded: by('outcome', 'punctual_runs_total', 'Attempts settled, by outcome'),
    runsHandedOver: counter(
      'punctual_runs_handed_over_total',
      'Runs leased by the statement that created them, without a claim',
    ),
    runsAdmitted: counter(
      'punctual_runs_admitted_total',
      'Runs that this server gave a place under their key or fair share',
    ),
    runsDropped: counter('punctual_runs_dropped_total', 'Due runs that a gate dropped'),
    runsReaped: counter('punctual_runs_reaped_total', 'Runs taken back from lost workers'),
    runsGivenBack: counter('punctual_runs_given_back_total', 'Grants that never reached their worker'),
    workersReturned: counter(
      'punctual_workers_returned_total',
      'Times a worker came back that had called another server meanwhile; many: its calls go from server to server, which costs a comparison with the book each',
    ),
    leaseLost: counter('punctual_lease_lost_total', 'Writes refused because the lease had moved on'),
    workersLost: counter('punctual_workers_lost_total', 'Workers that did not renew their lease'),
    occurrences: by(
      'outcome',
      'punctual_occurrences_total',
      'Nominal times of schedules, by what became of them: run, or the reason why not',
    ),
    pruned: by('table', 'punctual_pruned_rows_total', 'Rows that retention removed, by table'),
    deliveries: by(
      'outcome',
      'punctual_deliveries_total',
      'Attempts of this server to deliver alerts and events, by outcome: delivered, failed (to be tried again), dead',
    ),
    loopFailures: by('loop', 'punctual_loop_failures_total', 'Passes of background loops that failed, by loop'),
    databaseErrors: counter(
      'punctual_database_errors_total',
      'Queries that failed because the database did not answer',
    ),
    statementSeconds: histogram(
      'punctual_database_statement_duration_seconds',
      'Time from sending a statement to its answer',
      short,
    ),
    poolWaitSeconds: histogram(
      'punctual_database_pool_wait_seconds',
      'Time that a statement or transaction waited for a connection',
      short,
    ),
    observeStart: observer(registry, {
      name: 'punctual_run_start_lateness_seconds',
      help: `Time from when a run was due to its lease, by queue (${maxNames} of them, then other)`,
      labels: ['queue'],
      buckets: [0.001, 0.0025, ...long],
    }),
    observeAttempt: observer(registry, {
      name: 'punctual_attempt_duration_seconds',
      help: `Time from the lease to the outcome that its worker reported to the same server, by type (${maxNames} of them, then other)`,
      labels: ['type'],
      buckets: long,
    }),
    observeRequest: requestObserver(registry),
  };
}

function observer(
  registry: Registry,
  options: ConstructorParameters<typeof FastHistogram>[0],
): (name: string, seconds: number, times?: number) => void {
  const histogram = new FastHistogram(options, registry);
  const names = new FewLabels(maxNames);
  const series = new Map<string, Series>();
  return (given, seconds, times) => {
    const name = names.of(given);
    let one = series.get(name);
    if (one === undefined) {
      one = histogram.open(name);
      series.set(name, one);
    }
    one.observe(seconds, times);
  };
}

function requestObserver(registry: Registry): (operation: string, status: number, seconds: number) => void {
  const histogram = new FastHistogram(
    {
      name: 'punctual_http_request_duration_seconds',
      help: 'Time to answer a request, sync apart',
      labels: ['operation', 'status'],
      buckets: short,
    },
    registry,
  );
  const byOperation = new Map<string, Map<number, Series>>();
  return (operation, status, seconds) => {
    let byStatus = byOperation.get(operation);
    if (byStatus === undefined) {
      byStatus = new Map();
      byOperation.set(operation, byStatus);
    }
    let one = byStatus.get(status);
    if (one === undefined) {
      one = histogram.open(operation, String(status));
      byStatus.set(status, one);
    }
    one.observe(seconds);
  };
}

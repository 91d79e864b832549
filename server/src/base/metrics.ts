// What the server counts, in base units and with few labels; GET /metrics shows it. One registry per server.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

export type Metrics = ReturnType<typeof openMetrics>;

export function openMetrics(gauges: {
  idleSlots: () => number;
  connectedWorkers: () => number;
  waitingSubmits: () => number;
  waitingForLimit: () => number;
  alertsFiring: () => number;
}) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const gauge = (name: string, help: string, read: () => number): Gauge =>
    new Gauge({
      name,
      help,
      registers,
      collect: function () {
        this.set(read());
      },
    });
  gauge('punctual_idle_slots', 'Free slots of the workers connected to this server', gauges.idleSlots);
  gauge('punctual_connected_workers', 'Workers connected to this server', gauges.connectedWorkers);
  gauge('punctual_waiting_submits', 'Jobs in memory that are being written', gauges.waitingSubmits);
  gauge(
    'punctual_runs_waiting_for_limit',
    'Due runs that wait for room under a key or a fair share',
    gauges.waitingForLimit,
  );
  gauge('punctual_alerts_firing', 'Alerts that go on, as this server last saw it', gauges.alertsFiring);
  const requests = new Map<string, Histogram.Internal<'operation' | 'status'>>();
  const requestSeconds = new Histogram({
    name: 'punctual_http_request_duration_seconds',
    help: 'Time to answer a request, sync apart',
    labelNames: ['operation', 'status'],
    buckets: [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  });
  return {
    registry,
    jobsCreated: new Counter({ name: 'punctual_jobs_created_total', help: 'Jobs created', registers }),
    runsStarted: new Counter({ name: 'punctual_runs_started_total', help: 'Runs leased to workers', registers }),
    runsEnded: new Counter({
      name: 'punctual_runs_total',
      help: 'Attempts settled, by outcome',
      labelNames: ['outcome'],
      registers,
    }),
    runsHandedOver: new Counter({
      name: 'punctual_runs_handed_over_total',
      help: 'Runs leased by the statement that created them, without a claim',
      registers,
    }),
    runsAdmitted: new Counter({
      name: 'punctual_runs_admitted_total',
      help: 'Runs that this server gave a place under their key or fair share',
      registers,
    }),
    occurrences: new Counter({
      name: 'punctual_occurrences_total',
      help: 'Nominal times of schedules, by what became of them: run, or the reason why not',
      labelNames: ['outcome'] as const,
      registers,
    }),
    runsDropped: new Counter({
      name: 'punctual_runs_dropped_total',
      help: 'Due runs that a gate dropped',
      registers,
    }),
    leaseLost: new Counter({
      name: 'punctual_lease_lost_total',
      help: 'Writes refused because the lease had moved on',
      registers,
    }),
    runsReaped: new Counter({
      name: 'punctual_runs_reaped_total',
      help: 'Runs taken back from lost workers',
      registers,
    }),
    runsGivenBack: new Counter({
      name: 'punctual_runs_given_back_total',
      help: 'Grants that never reached their worker',
      registers,
    }),
    pruned: new Counter({
      name: 'punctual_pruned_rows_total',
      help: 'Rows that retention removed, by table',
      labelNames: ['table'] as const,
      registers,
    }),
    deliveries: new Counter({
      name: 'punctual_deliveries_total',
      help: 'Attempts of this server to deliver alerts and events, by outcome: delivered, failed (to be tried again), dead',
      labelNames: ['outcome'] as const,
      registers,
    }),
    databaseErrors: new Counter({
      name: 'punctual_database_errors_total',
      help: 'Queries that failed because the database did not answer',
      registers,
    }),
    submitBatch: new Histogram({
      name: 'punctual_submit_batch_jobs',
      help: 'Jobs written in one statement',
      buckets: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
      registers,
    }),
    observeRequest: (operation: string, status: number, seconds: number) => {
      // Looking labels up by name costs more than observing: keep the child.
      const key = `${operation} ${status}`;
      let child = requests.get(key);
      if (child === undefined) {
        child = requestSeconds.labels({ operation, status: String(status) });
        requests.set(key, child);
      }
      child.observe(seconds);
    },
  };
}

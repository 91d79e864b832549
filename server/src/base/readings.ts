// Metrics that are read when somebody asks for them: what this server holds in memory, and the figures of the whole house as
// they were last read. Registered by metrics.ts.
import { Counter, Gauge, type Registry } from 'prom-client';

/** Queues and types with a label of their own; each has some twenty series. */
export const maxNames = 50;

/** What is read when somebody asks. */
export interface Readings {
  version: string;
  idleSlots: () => number;
  connectedWorkers: () => number;
  waitingSubmits: () => number;
  openBodyBytes: () => number;
  waitingForLimit: () => number;
  alertsFiring: () => number;
  /** Connections of the pool. */
  pool: () => { total: number; idle: number; waiting: number };
  house: () => HouseFigures | null;
  /** What became of spans; null when this process sends none. */
  spans: () => SpanCounts | null;
}

/** The same for all servers of a database. */
export interface HouseFigures {
  /** Seconds since they were read. */
  age: number;
  queues: readonly { queue: string; ready: number; running: number; oldest_seconds: number }[];
  workers: { alive: number; draining: number; lost: number; slots: number };
  dead_letters: number;
  due_behind_seconds: number;
}

export interface SpanCounts {
  exported: number;
  failed: number;
  dropped: number;
}

/** Of a server that does nothing yet. */
export const noReadings: Readings = {
  version: '',
  idleSlots: () => 0,
  connectedWorkers: () => 0,
  waitingSubmits: () => 0,
  openBodyBytes: () => 0,
  waitingForLimit: () => 0,
  alertsFiring: () => 0,
  pool: () => ({ total: 0, idle: 0, waiting: 0 }),
  house: () => null,
  spans: () => null,
};

export function registerReadings(registry: Registry, readings: Readings): void {
  const gauge = (name: string, help: string, read: () => number): void => {
    const collect = function (this: Gauge): void {
      this.set(read());
    };
    registry.registerMetric(new Gauge({ name, help, registers: [], collect }));
  };
  const labelled = (name: string, help: string, label: string, read: Read): void => {
    const collect = function (this: Gauge): void {
      this.reset();
      for (const [value, number] of read()) this.set({ [label]: value }, number);
    };
    registry.registerMetric(new Gauge({ name, help, labelNames: [label], registers: [], collect }));
  };
  gauge('punctual_idle_slots', 'Free slots of the workers connected to this server', readings.idleSlots);
  gauge('punctual_connected_workers', 'Workers connected to this server', readings.connectedWorkers);
  gauge('punctual_waiting_submits', 'Jobs in memory that are being written', readings.waitingSubmits);
  gauge('punctual_open_body_bytes', 'Bytes of requests that are not answered yet', readings.openBodyBytes);
  gauge(
    'punctual_runs_waiting_for_limit',
    'Due runs that wait for room under a key or a fair share',
    readings.waitingForLimit,
  );
  gauge('punctual_alerts_firing', 'Alerts that go on, as this server last saw it', readings.alertsFiring);
  labelled('punctual_build_info', 'Always 1; the version is its label', 'version', () => [[readings.version, 1]]);
  labelled('punctual_database_connections', 'Connections of the pool, by state', 'state', () => {
    const { total, idle } = readings.pool();
    return [
      ['busy', total - idle],
      ['idle', idle],
    ];
  });
  gauge(
    'punctual_database_waiting_statements',
    'Statements and transactions that wait for a connection',
    () => readings.pool().waiting,
  );
  const spans = 'Spans that were exported, that the collector did not take, and that found no room and were dropped';
  const spanCounter = new Counter({
    name: 'punctual_spans_total',
    help: `${spans}, by outcome`,
    labelNames: ['outcome'],
    registers: [],
    collect() {
      this.reset();
      for (const [outcome, count] of Object.entries(readings.spans() ?? {})) this.inc({ outcome }, count);
    },
  });
  registry.registerMetric(spanCounter);
  registerHouse({ gauge, labelled }, readings.house);
}

type Read = () => Iterable<readonly [string, number]>;

interface Gauges {
  gauge: (name: string, help: string, read: () => number) => void;
  labelled: (name: string, help: string, label: string, read: Read) => void;
}

/** All servers of a database tell the same here: take the maximum over them, never the sum. */
function registerHouse({ gauge, labelled }: Gauges, house: () => HouseFigures | null): void {
  const queues = (of: (queue: HouseFigures['queues'][number]) => number): Read => {
    return () => (house()?.queues ?? []).map((queue) => [queue.queue, of(queue)] as const);
  };
  const which = `(the ${maxNames} with most, then other; the same on all servers)`;
  labelled(
    'punctual_queue_ready_runs',
    `Due runs that wait for a worker ${which}; large numbers are lower bounds`,
    'queue',
    queues((queue) => queue.ready),
  );
  labelled(
    'punctual_queue_running_runs',
    `Runs that are running ${which}`,
    'queue',
    queues((queue) => queue.running),
  );
  labelled(
    'punctual_queue_oldest_ready_seconds',
    `How long the first run in line has been due ${which}`,
    'queue',
    queues((queue) => queue.oldest_seconds),
  );
  labelled('punctual_workers', 'Workers seen within the last hour, by state (the same on all servers)', 'state', () => {
    const { alive = 0, draining = 0, lost = 0 } = house()?.workers ?? {};
    return Object.entries({ alive, draining, lost });
  });
  const workers = 'Slots of all workers that take runs (the same on all servers)';
  gauge('punctual_worker_slots', workers, () => house()?.workers.slots ?? 0);
  gauge(
    'punctual_dead_letters',
    'Dead letters nobody has redriven (the same on all servers); large numbers are lower bounds',
    () => house()?.dead_letters ?? 0,
  );
  gauge(
    'punctual_due_behind_seconds',
    'How long a run has been due that still waits to be moved into its queue (the same on all servers)',
    () => house()?.due_behind_seconds ?? 0,
  );
  gauge(
    'punctual_figures_age_seconds',
    'How old the figures are that are the same on all servers; -1 before the first',
    () => house()?.age ?? -1,
  );
}

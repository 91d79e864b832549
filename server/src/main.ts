// Builds a server in the order data walks (store, dispatch, scheduler, api) and passes values by hand. Called by the CLI
// and the tests.

import { type AddressRules, addressRules } from '@punctual/contract/outgoing';
import { Budgets } from './access/budgets.ts';
import { Keyring } from './access/keyring.ts';
import { readRates } from './access/rates.ts';
import { Deliverer } from './alerts/deliver.ts';
import { EventReader } from './alerts/read_events.ts';
import { Watcher } from './alerts/watch.ts';
import { openApi } from './api/server.ts';
import { Artifacts } from './artifacts/artifacts.ts';
import { openStore } from './artifacts/open.ts';
import { newToken } from './base/ids.ts';
import { type Logger, openLog } from './base/log.ts';
import { openMetrics } from './base/metrics.ts';
import type { SpanCounts } from './base/readings.ts';
import type { Config } from './config.ts';
import { Admitter } from './dispatch/admit.ts';
import { type Announcement, Announcer, sqlVoice } from './dispatch/announce.ts';
import { Breakers } from './dispatch/breakers.ts';
import { Claimer } from './dispatch/claim.ts';
import { Figures } from './dispatch/figures.ts';
import { Flow } from './dispatch/flow.ts';
import { Followers } from './dispatch/followers.ts';
import { handOverTo } from './dispatch/hand_over.ts';
import { Renewer } from './dispatch/renew.ts';
import { Sessions } from './dispatch/sessions.ts';
import { idleSlots } from './dispatch/slots.ts';
import { Starts } from './dispatch/starts.ts';
import { StatsBoard } from './dispatch/stats.ts';
import { Submitter, type SubmitterOptions } from './dispatch/submit.ts';
import { Sync } from './dispatch/sync.ts';
import { UniqueSubmitter } from './dispatch/unique.ts';
import { startLoops } from './loops.ts';
import { traceUrlProblem } from './rules/trace_url.ts';
import { ScheduleEditor } from './scheduler/edit.ts';
import { explainDatabaseError, StartError, vaultOf } from './start_error.ts';
import { inspectDatabase } from './store/connect.ts';
import { type Database, openDatabase, type PooledDatabase } from './store/database.ts';
import { createFirstKey } from './store/keys.ts';
import { Lanes } from './store/lanes.ts';
import { migrateDatabase } from './store/migrate.ts';
import { makePartitions } from './store/partitions.ts';
import { timeOfDatabase } from './store/ping.ts';
import { sharedSecret } from './store/secrets.ts';
import { WorkflowMemory } from './store/workflow_memory.ts';
import { version } from './version.ts';

export interface RunningServer {
  url: string;
  serverId: string;
  /** The first API key, when this server has just made it: it is shown to nobody else, and never again. */
  firstKey: string | null;
  /** Did requests need a key when it started? */
  asksForKeys: boolean;
  /** A key for workers of this process, which no other server accepts. */
  workerKey: string;
  stop(): Promise<void>;
}

export interface ServerOptions {
  databaseUrl: string;
  log?: Logger;
  /** What became of the spans of this process, when it sends some. */
  spans?: () => SpanCounts;
}

const connectTimeoutMs = 10_000;

export async function startServer(config: Config, options: ServerOptions): Promise<RunningServer> {
  const rates = readRates(config.rate_limits);
  requireSafeMode(config);
  requireTraceUrl(config);
  const vault = vaultOf(config);
  const log = options.log ?? openLog(config.log_level, 'punctual');
  const { segments, databaseVersion } = await prepareDatabase(config, options.databaseUrl, log);
  const serverId = newToken();
  const metrics = openMetrics({
    version,
    idleSlots: () => idleSlots(sessions.all()),
    connectedWorkers: () => sessions.size,
    waitingSubmits: () => submitter.waiting + uniqueSubmitter.waiting,
    openBodyBytes: () => api.openBodyBytes,
    waitingForLimit: () => admitter.waiting,
    alertsFiring: () => watcher.firing,
    pool: () => db.pool,
    house: () => figures.get(),
    spans: () => options.spans?.() ?? null,
  });

  const connections = (poolSize: number, onOtherHistory?: () => Promise<void>): PooledDatabase =>
    openDatabase({
      url: options.databaseUrl,
      poolSize,
      queryTimeoutMs: config.query_timeout_ms,
      onWaited: (seconds) => metrics.poolWaitSeconds.observe(seconds),
      onAnswered: (seconds) => metrics.statementSeconds.observe(seconds),
      onUnavailable: (error) => {
        metrics.databaseErrors.inc();
        log.debug({ err: error }, 'the database did not answer');
      },
      ...(onOtherHistory === undefined ? {} : { onOtherHistory }),
    });
  // Lanes are also made within transactions: with a connection of their own that never waits for those that wait for it.
  const laneDb = connections(1);
  const lanes = new Lanes(laneDb);
  const workflowMemory = new WorkflowMemory();
  let forget = (): void => {};
  const db = connections(config.pool_size, async () => {
    log.warn('another PostgreSQL has taken over; what this server remembers of the book is read anew');
    await lanes.reread();
    // After that: what came meanwhile went by the old ones.
    forget();
  });
  const secret = once(() => sharedSecret(db, 'artifact_addresses'));
  const store = openStore(config, secret);
  const keyring = new Keyring({ db, mode: modeOf(config), rates });
  const budgets = new Budgets(db);
  const open = async (): Promise<string | null> => {
    // Before anything is made that bears its time.
    await metrics.databaseClock.ask(() => timeOfDatabase(db));
    return openKeyring(db, keyring, config);
  };
  const firstKey = await open().catch(async (error: unknown) => {
    await Promise.all([db.close(), laneDb.close()]);
    throw error;
  });
  await makePartitions(db);
  await lanes.refresh();
  const flow = new Flow(db);
  await flow.refresh();

  const figures = new Figures(
    db,
    Array.from({ length: segments }, (_, i) => i),
  );
  const sessions = new Sessions();
  const admitter = new Admitter({
    db,
    lanes,
    flow,
    segments: Array.from({ length: segments }, (_, i) => i),
    metrics,
    pollIntervalMs: config.poll_interval_ms,
  });
  await admitter.refreshFair();
  const starts = new Starts(db);
  const stats = new StatsBoard({
    db,
    segments: Array.from({ length: segments }, (_, i) => i),
    starts,
    server: { server_id: serverId, version, database: databaseVersion },
  });
  const claimer = new Claimer({
    db,
    lanes,
    flow,
    starts,
    segments,
    metrics,
    vault,
    log,
    awaited: (segment) => loops.awaited(segment),
    onRefill: () => loops.refillSoon(),
    onClaimed: (segment, runs) => admitter.claimed(segment, runs),
    onKeys: (segment, keys) => admitter.perhaps(segment, keys),
  });
  flow.onChange = () => {
    claimer.wakeAll();
    admitter.wakeAll();
  };
  const flowChanged = async (): Promise<void> => {
    announcer.say({ flow: 'changed' });
    loops.flowChanged();
    // Who changed a rule may submit right after: it counts here by then. If it cannot be read, the loop goes on trying.
    await flow.refresh().catch(() => {});
  };
  const breakers = new Breakers({ db, log, flow, claimer, onMoved: () => void flowChanged() });
  const tell = (what: { segments?: Iterable<number>; lane?: number | undefined; nextMs?: number | null }): void => {
    const touched = [...(what.segments ?? [])];
    if (touched.length > 0) claimer.wake(touched, { lane: what.lane });
    if (touched.length > 0) admitter.wake(touched);
    if (what.nextMs != null) loops.dueWithin(what.nextMs);
    if (touched.length > 0 || what.nextMs != null) announcer.say(what);
  };
  const submits: Omit<SubmitterOptions, 'handOver'> = {
    db,
    lanes,
    segments,
    maxWaiting: config.max_waiting_submits,
    metrics,
    vault,
    onCreated: ({ ready, lane, entry, waiting, nextMs }) => {
      if (nextMs !== null) loops.dueWithin(nextMs, waiting);
      const due = entry.size === 0 ? ready : new Set([...ready, ...entry]);
      if (due.size > 0) claimer.wake(due, { lane });
      if (due.size > 0) announcer.say({ segments: due });
      if (entry.size > 0) admitter.wake(entry);
      if (nextMs !== null) announcer.say({ nextMs });
    },
    onBlocked: (on) => {
      loops.hasDependents(on.segments);
      if (on.earlier.size > 0) loops.depended(on.earlier);
      announcer.say({ parents: on.segments });
    },
    onScheduled: (where) => {
      for (const segment of where) loops.planSoon(segment);
    },
  };
  const submitter = new Submitter({ ...submits, handOver: handOverTo(claimer) });
  // Gates and limits are read anew all the time, and what waits is looked for.
  forget = () => {
    submitter.refuseWaiting();
    claimer.forgetPlaces();
    workflowMemory.clear();
  };
  const uniqueSubmitter = new UniqueSubmitter({
    ...submits,
    atOnce: Math.max(1, Math.floor(config.pool_size / 3)),
    onChanged: (where) => tell({ segments: where, nextMs: 0 }),
  });
  const followers = new Followers(db);
  const addresses = allowedAddressRules(config);
  const watcher = new Watcher({
    db,
    log,
    segments: Array.from({ length: segments }, (_, i) => i),
    everyMs: config.alert_interval_ms,
    onMessages: () => loops.deliverSoon(),
  });
  const events = new EventReader(db, () => loops.deliverSoon());
  const deliverer = new Deliverer({
    db,
    log,
    metrics,
    rules: addresses,
    policy: { backoff_ms: config.delivery_backoff_ms, max_attempts: config.delivery_max_attempts },
    timeoutMs: config.delivery_timeout_ms,
  });
  const sync = new Sync({
    db,
    segments,
    sessions,
    claimer,
    renewer: new Renewer(db, config.lease_ms),
    metrics,
    vault,
    serverId,
    leaseMs: config.lease_ms,
    marginMs: config.lease_margin_ms,
    heartbeatMs: config.heartbeat_ms,
    onEnded: (ended) => {
      for (const { lane_id, status, seconds, runs } of ended) {
        const { type } = lanes.get(lane_id);
        if (seconds !== null) metrics.observeAttempt(type, seconds, runs);
        if (status === 'SUCCESS' || status === 'FAILED') breakers.note(type, status === 'SUCCESS', runs);
      }
      if (!ended.some(({ lane_id }) => claimer.isLimited(lane_id))) return;
      claimer.roomFreed();
      announcer.say({ flow: 'freed' });
    },
    onLogged: (runIds) => followers.stored(runIds),
    onSettled: (settled, outcomes) => {
      if (outcomes.length > 0) stats.touch();
      followers.ended(outcomes.map(({ run_id }) => run_id));
      admitter.left(outcomes);
      for (const { segment, keys } of settled.keys) admitter.perhaps(segment, keys);
      tell({ segments: settled.ready, nextMs: settled.nextMs });
      loops.ended(settled.further);
      for (const { segment, runIds } of settled.settled) loops.runsEnded(segment, runIds);
    },
  });
  const announcer = new Announcer({
    db,
    url: options.databaseUrl,
    queryTimeoutMs: config.query_timeout_ms,
    serverId,
    lanes,
    log,
    onHeard: (heard: Announcement) => {
      // What SQL submitted may have committed long after it got its place in the lane.
      const late = heard.from === sqlVoice;
      if (lanes.knows(heard.newest_lane)) claimer.wake(heard.segments, { late });
      else
        void lanes.refresh().then(
          () => claimer.wake(heard.segments, { late }),
          () => {},
        ); // the poll will do it
      for (const order of heard.cancels) sync.cancel(order.session_id, order);
      for (const session of heard.drains ?? []) sync.drain(session);
      loops.hasDependents(heard.parents ?? []);
      if (heard.next_ms !== null) loops.dueWithin(heard.next_ms);
      if (heard.flow === 'freed') claimer.roomFreed();
      if (heard.flow === 'changed') loops.flowChanged();
      if (heard.keys === true) loops.keysChanged();
    },
  });
  const artifacts = new Artifacts({ ...{ db, segments, log, store }, maxBytes: config.artifacts_max_mb * 1024 ** 2 });
  const loops = startLoops({
    config,
    db,
    databaseUrl: options.databaseUrl,
    log,
    metrics,
    vault,
    segments,
    lanes,
    flow,
    breakers,
    starts,
    stats,
    admitter,
    claimer,
    sync,
    announcer,
    followers,
    artifacts,
    watcher,
    events,
    deliverer,
    keyring,
    budgets,
    workflowMemory,
  });

  const editor = new ScheduleEditor({ db, lanes, plan: (segment) => loops.plan(segment) });
  const api = openApi({
    config,
    keyring,
    budgets,
    db,
    log,
    metrics,
    vault,
    lanes,
    segments,
    submitter,
    uniqueSubmitter,
    admitter,
    sync,
    followers,
    announcer,
    editor,
    flow,
    stats,
    figures,
    serverId,
    databaseVersion,
    planSoon: (segment) => loops.planSoon(segment),
    backfillSoon: () => loops.backfillSoon(),
    flowChanged,
    operateSoon: () => loops.operateSoon(),
    ended: (segment, runIds) => loops.runsEnded(segment, runIds),
    retried: (segment) => loops.retried(segment),
    keysChanged: async () => {
      keyring.changed();
      announcer.say({ keys: true });
      await keyring.compare();
    },
    workflows: loops.workflows,
    artifacts,
    secret,
    filesSoon: () => loops.filesSoon(),
    addresses,
    watchSoon: () => loops.watchSoon(),
    deliverSoon: () => loops.deliverSoon(),
    tell,
  });
  const stop = async (): Promise<void> => {
    sync.stop();
    claimer.stop();
    followers.stop();
    stats.stop();
    await api.close();
    await loops.stop();
    await claimer.ended();
    // If that fails, the server to which their workers go finds them.
    await sync
      .giveBackUnsent()
      .catch((error: unknown) => log.warn({ err: error }, 'runs that were not sent stay leased'));
    await announcer.stop();
    await Promise.all([db.close(), laneDb.close()]);
    log.flush();
  };
  try {
    const url = await api.listen(config.host, config.port);
    log.info({ url, serverId, version, databaseVersion, segments }, 'server started');
    return {
      url,
      serverId,
      asksForKeys: keyring.required,
      firstKey,
      workerKey: keyring.makeOwn('worker of the server', 'worker'),
      stop,
    };
  } catch (error) {
    await stop();
    if ((error as { code?: string }).code !== 'EADDRINUSE') throw error;
    throw new StartError(`Port ${config.port} of ${config.host} is in use; choose another with PUNCTUAL_PORT.`, {
      cause: error,
    });
  }
}

async function prepareDatabase(
  config: Config,
  url: string,
  log: Logger,
): Promise<{ segments: number; databaseVersion: string }> {
  try {
    const facts = await inspectDatabase(url, connectTimeoutMs);
    if (!facts.can_create) throw Object.assign(new Error('permission denied'), { code: '42501' });
    const migrated = await migrateDatabase({ url, segments: config.segments });
    if (migrated.applied.length > 0) log.info({ applied: migrated.applied }, 'database migrated');
    return { segments: migrated.segments, databaseVersion: facts.version };
  } catch (error) {
    throw error instanceof StartError ? error : explainDatabaseError(error, url);
  }
}

/** Asked for at first use; a failure is not remembered. */
function once<T>(ask: () => Promise<T>): () => Promise<T> {
  let known: Promise<T> | null = null;
  return () => {
    known ??= ask().catch((error: unknown) => {
      known = null;
      throw error;
    });
    return known;
  };
}

function allowedAddressRules(config: Config): AddressRules {
  try {
    return addressRules(config.http_allow);
  } catch (error) {
    throw new StartError((error as Error).message);
  }
}

/** May it be open to whoever reaches it? */
function mayBeOpen(config: Config): boolean {
  return isLoopback(config.host) || config.trust_network;
}

function modeOf(config: Config): 'on' | 'off' | 'auto' {
  if (config.auth === 'off') return 'off';
  return config.auth === 'on' || !mayBeOpen(config) ? 'on' : 'auto';
}

function requireSafeMode(config: Config): void {
  if (config.auth !== 'off' || mayBeOpen(config)) return;
  throw new StartError(
    `PUNCTUAL_AUTH is off and PUNCTUAL_HOST is ${config.host}, which others can reach: use 127.0.0.1, or set PUNCTUAL_TRUST_NETWORK=true if whoever reaches it may run jobs.`,
  );
}

function requireTraceUrl({ trace_url }: Config): void {
  const problem = trace_url === null ? null : traceUrlProblem(trace_url);
  if (problem !== null) throw new StartError(`PUNCTUAL_TRACE_URL is ${JSON.stringify(trace_url)}; ${problem}.`);
}

/** Answers the first key, if it had to be made. */
async function openKeyring(db: Database, keyring: Keyring, config: Config): Promise<string | null> {
  await keyring.compare();
  if (keyring.hasKeys || modeOf(config) !== 'on') return null;
  if (config.auth === 'on') {
    const key = await createFirstKey(db, 'first key');
    await keyring.compare();
    return key?.secret ?? null;
  }
  throw new StartError(
    `PUNCTUAL_HOST is ${config.host}, which others can reach, and there are no API keys yet: make one with \`punctual keys create --role admin\`, or set PUNCTUAL_AUTH=on to have the first one made and printed now, or use 127.0.0.1. PUNCTUAL_TRUST_NETWORK=true does without keys if whoever reaches it may run jobs.`,
  );
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

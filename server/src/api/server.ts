// The HTTP server: limits, safety of the door, and all routes. The order of a request: who and whether (guard.ts), is there room
// for its body (body_room.ts), body,
// schema, whose rows (own.ts), handler, audit log; every error leaves through errors.ts.
import { limits } from '@punctual/contract';
import type { AddressRules } from '@punctual/contract/outgoing';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Budgets } from '../access/budgets.ts';
import type { Keyring } from '../access/keyring.ts';
import type { Artifacts } from '../artifacts/artifacts.ts';
import { newRequestId } from '../base/ids.ts';
import type { Logger } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { Vault } from '../base/vault.ts';
import type { Config } from '../config.ts';
import type { Admitter } from '../dispatch/admit.ts';
import type { Announcer } from '../dispatch/announce.ts';
import type { Figures } from '../dispatch/figures.ts';
import type { Flow } from '../dispatch/flow.ts';
import type { Followers } from '../dispatch/followers.ts';
import type { StatsBoard } from '../dispatch/stats.ts';
import type { Submitter } from '../dispatch/submit.ts';
import type { Sync } from '../dispatch/sync.ts';
import type { UniqueSubmitter } from '../dispatch/unique.ts';
import type { ScheduleEditor } from '../scheduler/edit.ts';
import type { Workflows } from '../scheduler/workflows.ts';
import type { Database } from '../store/database.ts';
import type { Lanes } from '../store/lanes.ts';
import { registerChannels, registerSubscriptions } from './alert_channels.ts';
import { registerAlerts } from './alerts.ts';
import { registerArtifacts } from './artifacts.ts';
import { registerAudit } from './audit.ts';
import { registerBackfills } from './backfills.ts';
import { BodyRoom, limitBodies } from './body_room.ts';
import { registerDashboard } from './dashboard.ts';
import { registerDeadLetters } from './dead_letters.ts';
import { answerErrors, explainError } from './errors.ts';
import { registerFlow } from './flow.ts';
import { registerForecast } from './forecast.ts';
import { admit, guardDoor } from './guard.ts';
import { registerJobs } from './jobs.ts';
import { registerKeyLimits } from './key_limits.ts';
import { registerKeys } from './keys.ts';
import { registerLogs } from './logs.ts';
import { registerOperations } from './operations.ts';
import { QuickDoor, type QuickDoorParts } from './quick_door.ts';
import { registerRetention } from './retention.ts';
import { registerRuns } from './runs.ts';
import { registerSchedules } from './schedules.ts';
import { registerService } from './service.ts';
import { registerStats } from './stats.ts';
import { streamType } from './stream.ts';
import { registerWorkers } from './workers.ts';
import { registerWorkflowMoves } from './workflow_moves.ts';
import { registerWorkflows } from './workflows.ts';

export interface ApiParts {
  config: Config;
  keyring: Keyring;
  budgets: Budgets;
  db: Database;
  log: Logger;
  metrics: Metrics;
  vault: Vault;
  lanes: Lanes;
  segments: number;
  allSegments: readonly number[];
  submitter: Submitter;
  uniqueSubmitter: UniqueSubmitter;
  admitter: Admitter;
  sync: Sync;
  followers: Followers;
  announcer: Announcer;
  editor: ScheduleEditor;
  flow: Flow;
  stats: StatsBoard;
  figures: Figures;
  serverId: string;
  databaseVersion: string;
  /** A schedule of the segment may have a time now. */
  planSoon: (segment: number) => void;
  /** A backfill has something to do. */
  backfillSoon: () => void;
  /** The rules of queues and types were changed: every server must know. Resolves when this one goes by them. */
  flowChanged: () => Promise<void>;
  /** An operation has something to do. */
  operateSoon: () => void;
  /** Runs of a segment have ended, or may have. */
  ended: (segment: number, runIds: readonly string[]) => void;
  /** Runs of the segment were redriven. */
  retried: (segment: number) => void;
  /** Keys or sessions were changed: every server must know. */
  keysChanged: () => Promise<void>;
  workflows: Workflows;
  /** Where webhooks and mail servers may be. */
  addresses: AddressRules;
  /** A rule may have something to say. */
  watchSoon: () => void;
  /** Something is to be delivered. */
  deliverSoon: () => void;
  artifacts: Artifacts;
  /** Signs addresses of uploads. */
  secret: () => Promise<string>;
  /** Content of artifacts is to be removed. */
  filesSoon: () => void;
  /** Wakes whoever should know that runs became ready or wait for a time. */
  tell: (what: { segments?: Iterable<number>; nextMs?: number | null }) => void;
}

export interface Api {
  listen(host: string, port: number): Promise<string>;
  close(): Promise<void>;
  /** Bytes of requests that are not answered yet. */
  readonly openBodyBytes: number;
}

/** A request that has not arrived whole by then is a broken or hostile client. */
const requestTimeoutMs = 30_000;

export function openApi(given: Omit<ApiParts, 'allSegments'>): Api {
  const parts: ApiParts = { ...given, allSegments: Array.from({ length: given.segments }, (_, i) => i) };
  const app = fastify({
    bodyLimit: limits.max_body_bytes,
    requestTimeout: requestTimeoutMs,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 500 },
    genReqId: newRequestId,
    logger: false,
  });
  app.decorateRequest('bodyText', '');
  const parse = acceptJson(app);
  app.decorateRequest('isRecorded', false);
  app.decorate('door', { db: parts.db, segments: parts.segments });
  guardDoor(app, parts);
  const room = new BodyRoom(parts.config.max_open_body_mb * 1024 * 1024);
  limitBodies(app, room);
  const onAnswered = measure(app, parts);
  const quickDoor = new QuickDoor({
    admit: (asked, answering) => admit(asked, answering, parts),
    parse,
    explain: (error, asked, answering) => explainError(error, asked, answering, parts.log),
    onAnswered,
    room,
    idleMs: app.server.keepAliveTimeout,
  });
  app.decorate('quickDoor', quickDoor);
  app.addHook('preClose', async () => quickDoor.close());
  answerErrors(app, parts.log);
  registerJobs(app, parts);
  registerRuns(app, parts);
  registerLogs(app, parts);
  registerDeadLetters(app, parts);
  registerSchedules(app, parts);
  registerBackfills(app, parts);
  registerForecast(app, parts);
  registerFlow(app, parts);
  registerOperations(app, parts);
  registerKeyLimits(app, parts);
  registerWorkflows(app, parts);
  registerWorkflowMoves(app, parts);
  registerRetention(app, parts);
  registerArtifacts(app, parts);
  registerAlerts(app, parts);
  registerChannels(app, parts);
  registerSubscriptions(app, parts);
  registerKeys(app, parts);
  registerAudit(app, parts);
  registerWorkers(app, parts);
  registerStats(app, parts);
  registerService(app, parts);
  registerDashboard(app);
  quickDoor.openBefore(app.server);
  return {
    async listen(host, port) {
      await app.listen({ host, port });
      const address = app.server.address();
      const name = host.includes(':') ? `[${host}]` : host;
      return `http://${name}:${typeof address === 'object' ? (address?.port ?? port) : port}`;
    },
    close: () => app.close(),
    get openBodyBytes() {
      return room.held;
    },
  };
}

/** JSON only; an empty body is no body, so that POST /pause with a content type works; prototypes are refused. */
function acceptJson(app: FastifyInstance): (text: string) => unknown {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    request.bodyText = body as string;
    if (body === '') done(null, undefined);
    else void parse(request, body as string, done);
  });
  return (text) => {
    const parsed: { error: Error | null; value: unknown } = { error: null, value: undefined };
    void parse(noRequest, text, (error, value) => Object.assign(parsed, { error, value }));
    if (parsed.error !== null) throw parsed.error;
    return parsed.value;
  };
}

/** The parser does not look at the request. */
const noRequest = null as unknown as FastifyRequest;

/** Times requests, and notes that something has changed. */
function measure(app: FastifyInstance, { metrics, stats }: ApiParts): QuickDoorParts['onAnswered'] {
  app.addHook('onResponse', (request, reply, done) => {
    const { operation } = request.routeOptions.config;
    if (request.method !== 'GET' && operation !== 'syncWorker' && reply.statusCode < 400) stats.touch();
    // A sync and a stream wait on purpose: their time says nothing.
    if (operation !== undefined && operation !== 'syncWorker' && !isStream(reply))
      metrics.observeRequest(operation, reply.statusCode, reply.elapsedTime / 1000);
    done();
  });
  return ({ operation = '' }, status, seconds) => {
    if (status < 400) stats.touch();
    metrics.observeRequest(operation, status, seconds);
  };
}

function isStream({ raw }: FastifyReply): boolean {
  return raw.getHeader('content-type') === streamType;
}

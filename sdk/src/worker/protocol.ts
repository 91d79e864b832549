// The worker protocol: one call, sync, made again and again from a thread of its own (thread.ts), so that a handler that
// blocks the event loop cannot stop it. The header of contract/src/workers.ts describes the protocol itself.
//
// At most two calls are open. One waits on the server for work. While slots are plenty, what there is to report gathers
// for some milliseconds and goes by a second call that does not wait, so that a report being applied never delays the
// start of a new run. When slots run short one call does both: the report goes with a newer call that waits, and the
// server answers the older at once. While a call is busy with what it carries the next batch gathers, so batches grow
// with the load by themselves, and one round trip settles a batch and brings the next runs.
//
// With a balancer that sends calls to changing servers only one call is open: each server goes by what it was told itself, and one
// that waits would not hear of slots that a report to another has freed. A call that waits is given up when there is something
// to report, but not before a server that has work would have answered it: what it was granted would be lost (pace.ts).
//
// What a call carries is kept until its answer arrives and is sent again when it fails: settling is idempotent. A run
// whose outcome is in an unanswered call is still listed as running, because calls may overtake each other, and the server
// takes back what is neither listed nor reported.
//
// The lease counts from the moment a call was sent, by the monotonic clock. When it can no longer be renewed, all work is
// aborted a margin before its end, nothing of it is reported, and a new session begins. Handlers that go on at the true
// end are killed with the process if that was asked for: no work continues past its lease, but for a moment after a freeze.
import { performance } from 'node:perf_hooks';
import { PunctualError } from '@punctual/contract/plain';
import { Caution } from './caution.ts';
import { RunAbortedError } from './errors.ts';
import { HeldRuns } from './held.ts';
import type { AbortReason, FromThread, Report, ThreadOptions, WorkerEvent } from './messages.ts';
import { failureText } from './outcome.ts';
import { beatMs, busyUntil, Pace, type Room } from './pace.ts';
import { Reachability } from './reachability.ts';
import { Roaming } from './roaming.ts';
import { type OpenCall, Session } from './session.ts';
import { sharedNow } from './shared-clock.ts';
import { type Heard, readLeases, type SyncBody, unreadable } from './sync-answer.ts';
import { syncText } from './sync-text.ts';
import { type Item, Unsent } from './unsent.ts';

const max_open_calls = 2;
/** Until the first answer says otherwise. */
const default_heartbeat_ms = 4_000;
/** No call stays open longer, whatever the server says about its own waiting. */
const call_timeout_ms = 120_000;
/** How long goodbye is tried when the server does not answer. */
const bye_patience_ms = 5_000;
/**
 * After a lease that was lost without warning, or while the process stood still, handlers get this long to notice before the
 * process is killed: only the process itself can kill the groups of its programs first. Never longer than the margin.
 */
const notice_ms = 1_000;

export interface ProtocolDeps {
  call: (json: string, options: { signal: AbortSignal; timeoutMs: number }) => Promise<SyncBody>;
  toMain: (message: FromThread) => void;
  kill: () => void;
}

export class Protocol {
  readonly #options: ThreadOptions;
  readonly #deps: ProtocolDeps;
  readonly #held = new HeldRuns();
  readonly #unsent = new Unsent();
  readonly #caution = new Caution();
  readonly #reach = new Reachability((event) => this.#tell(event));
  readonly #roaming = new Roaming();
  #session = new Session();
  #heartbeatMs = default_heartbeat_ms;
  readonly #pace = new Pace();
  /** The server that has answered a call with a list of what runs, and allows to leave it out; null: something was lost since. */
  #listedTo: string | null = null;
  #listedAt = Number.NEGATIVE_INFINITY;
  /** How often something was lost that a server may believe we have. */
  #losses = 0;
  /** Something other than items has to be said: the description, or that no runs are accepted any more. */
  #news = true;
  #describe = true;
  #draining = false;
  #byeUntil: number | null = null;
  #gone = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: ThreadOptions, deps: ProtocolDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  start(): void {
    this.#pump();
  }

  /** What became of runs in the main thread. */
  report(report: Report): void {
    const { keys, outcomes, stuck, freed } = report;
    this.#takeWords(report);
    keys.forEach((key, i) => {
      const run = this.#held.get(key);
      if (run === undefined || run.reported) {
        this.#ended(key);
        return;
      }
      run.reported = true;
      if (run.awaited) this.#pace.gathered();
      else if (this.#unsent.length === 0) this.#pace.gather(performance.now());
      this.#unsent.push({ key, kind: 'outcome', text: outcomes[i] as string });
    });
    for (const key of stuck) this.#held.markOutlived(key);
    if (stuck.length > 0) this.#redescribe();
    for (const key of freed) this.#ended(key);
    this.#pump();
  }

  /** What runs said on their way: lines, checkpoints, progress. Of runs that are not held any more it counts no longer. */
  #takeWords({ logKeys, logs, checkpointKeys, checkpoints, progressKeys, progress }: Report): void {
    const dropped: Item[] = [];
    logKeys.forEach((key, i) => {
      const item: Item = { key, kind: 'log', text: logs[i] as string };
      if (this.#held.get(key) === undefined) dropped.push(item);
      else this.#unsent.push(item);
    });
    this.#logsDone(dropped);
    checkpointKeys.forEach((key, i) => {
      if (this.#held.get(key)?.reported === false)
        this.#unsent.push({ key, kind: 'checkpoint', text: checkpoints[i] as string });
    });
    progressKeys.forEach((key, i) => {
      if (this.#held.get(key)?.reported === false)
        this.#unsent.replaceProgress({ key, kind: 'progress', text: progress[i] as string });
    });
  }

  /** Take nothing new from now on. */
  drain(): void {
    this.#draining = true;
    this.#news = true;
    this.#pump();
  }

  /** Say what is left to say, and goodbye. */
  bye(): void {
    this.#draining = true;
    this.#news = true;
    this.#byeUntil = performance.now() + bye_patience_ms;
    for (const call of this.#session.open.values()) if (call.wait && call.items.length === 0) this.#giveUp(call);
    this.#pump();
  }

  get #slots(): number {
    return this.#options.description.slots - this.#held.outlived;
  }

  get #accepts(): boolean {
    return !this.#draining && this.#slots > 0;
  }

  /** Does whatever is due, then sets the timer for what comes next. */
  #pump(): void {
    if (this.#gone) return;
    const now = performance.now();
    if (now >= this.#session.stopAt)
      this.#loseSession('no server answered in time to renew it', this.#session.killAt(now, notice_ms));
    this.#giveUpOverdue(now);
    if (this.#byeUntil !== null && this.#byeIsDone(now)) return this.#end();
    if (now >= this.#reach.pauseUntil) this.#sendIfDue(now);
    this.#setTimer(now);
  }

  #sendIfDue(now: number): void {
    const session = this.#session;
    const isBeat = now >= this.#beatAt(now);
    const canTalk = now >= this.#talkAt && (this.#news || this.#canReport || this.#byeIsReady);
    const isQuiet = this.#shouldListen && now >= this.#pace.quietAt;
    if (!isBeat && !canTalk && !isQuiet) return;
    if (this.#roaming.isOn(now)) {
      if (this.#isBusyAlone && !isBeat) return;
      for (const call of session.open.values()) this.#giveUp(call);
      return this.#send(now, this.#unsent.take(this.#held, this.#caution.maxItems));
    }
    if (session.open.size >= max_open_calls) {
      if (!isBeat) return;
      this.#giveUp(session.oldest as OpenCall);
    }
    // A call is answered when what it carries is applied: while slots are plenty, one that waits for work carries nothing.
    const onlyListens = this.#mayWait && !session.listens && !this.#isShort && !this.#asksIfWell;
    this.#send(now, onlyListens ? [] : this.#unsent.take(this.#held, this.#caution.maxItems));
    if (onlyListens) this.#sendIfDue(now);
  }

  /** A call is open that is answered soon. */
  get #isBusyAlone(): boolean {
    return this.#session.open.size > 0 && !this.#session.listens;
  }

  /** When a call leaves whatever there is to say. */
  #beatAt(now: number): number {
    return this.#session.lastSentAt + beatMs(this.#heartbeatMs, this.#roaming.isOn(now) && this.#session.listens);
  }

  get #canReport(): boolean {
    return this.#caution.maxItems > 0 && this.#unsent.canSend(this.#held);
  }

  /** What is unsent has to wait for the answer to a call that comes at once. */
  get #asksIfWell(): boolean {
    return this.#news && this.#caution.maxItems === 0;
  }

  get #mayWait(): boolean {
    return this.#session.leaseUntil !== null && this.#byeUntil === null;
  }

  /** No call waits for work, and one should, also beside one that reports. */
  get #shouldListen(): boolean {
    return this.#session.open.size === 0 || (this.#mayWait && !this.#session.listens);
  }

  /** Short: so few slots are free that they may soon all be taken. */
  get #room(): Room {
    if (this.#held.size >= this.#slots) return 'none';
    return this.#held.size * 2 >= this.#slots ? 'short' : 'plenty';
  }

  get #isShort(): boolean {
    return this.#room !== 'plenty';
  }

  /** When the next call that says something may leave. */
  get #talkAt(): number {
    const at = this.#session.freeToTalkAt;
    return this.#news || this.#isShort || this.#byeUntil !== null ? at : Math.max(at, this.#pace.gatherUntil);
  }

  get #byeIsReady(): boolean {
    return this.#byeUntil !== null && this.#unsent.length === 0 && this.#session.open.size === 0;
  }

  #byeIsDone(now: number): boolean {
    if (now >= (this.#byeUntil as number)) return true;
    return this.#reach.isUnreachable && this.#unsent.length === 0 && this.#held.size === 0;
  }

  #send(now: number, items: Item[]): void {
    const session = this.#session;
    const bye = this.#byeIsReady;
    // The first answer says how long the lease holds, so it must come at once; and an outcome waits for lines to arrive, a
    // handler for its checkpoint.
    const alone = this.#roaming.isOn(now);
    const isPlenty = items.length > 0 && (session.listens || alone) && !this.#isShort;
    const reports = isPlenty || items.some((item) => item.kind !== 'outcome');
    const wait = this.#mayWait && !reports && !this.#asksIfWell;
    if (this.#unsent.length === 0) this.#pace.gathered();
    const describes = this.#describe;
    const mustList = this.#listedTo === null || alone || describes || bye;
    const lists = mustList || now >= this.#listedAt + this.#heartbeatMs;
    if (lists) this.#listedAt = now;
    const call = session.begin({
      sentAt: now,
      items,
      wait,
      busyUntil: busyUntil(now, { wait, reports: items.length > 0, alone, room: this.#room }),
      bye,
      describes,
      lists,
      losses: this.#losses,
      terse: this.#listedTo !== null,
    });
    this.#held.countInFlight(items, 1);
    const worker = { ...this.#options.description, slots: Math.max(1, this.#slots) };
    const json = syncText({ session, call, held: this.#held, accept: this.#accepts, worker });
    this.#news = false;
    this.#describe = false;
    this.#deps.call(json, { signal: call.controller.signal, timeoutMs: call_timeout_ms }).then(
      (body) => this.#answered(session, call, body),
      (error: unknown) => this.#failed(session, call, error),
    );
  }

  #answered(session: Session, call: OpenCall, body: SyncBody): void {
    if (session !== this.#session || !session.open.delete(call.n)) return;
    let heard: Heard;
    try {
      heard = readLeases(body);
    } catch (error) {
      session.open.set(call.n, call);
      return this.#failed(session, call, error);
    }
    const { answer } = heard;
    const isFirst = session.leaseUntil === null;
    session.renew(call.sentAt, answer);
    // After a freeze the answer may be read before the timer notices that the lease is over.
    if (performance.now() >= session.stopAt) {
      this.#concluded(call, false);
      return this.#pump();
    }
    this.#heartbeatMs = answer.heartbeat_ms;
    this.#roaming.answered(answer.server_id, { now: performance.now(), beside: session.open.size > 0 });
    this.#noteListed(call, answer);
    this.#concluded(call, true);
    this.#reach.answered(performance.now());
    if (isFirst) this.#tell({ type: 'connected', server_id: answer.server_id, session_id: session.id });
    if (call.bye) return this.#end();
    this.#follow(call, heard, body);
    this.#pump();
  }

  /** Whether calls from now on may leave out what runs: this server has read it, and has missed nothing since. */
  #noteListed({ lists, losses }: OpenCall, { server_id, brief = false }: Heard['answer']): void {
    if (!brief || (this.#listedTo !== null && this.#listedTo !== server_id)) this.#listedTo = null;
    else if (lists && losses === this.#losses) this.#listedTo = server_id;
  }

  /** What a server may have granted did not arrive, or what it knows of is gone: the next call lists what runs. */
  #lost(): void {
    this.#losses += 1;
    this.#listedTo = null;
  }

  #follow(call: OpenCall, heard: Heard, body: SyncBody): void {
    const now = performance.now();
    const { answer } = heard;
    if (heard.runs > 0) {
      const firstKey = this.#held.add(heard.leased, now, this.#options.stopGraceMs);
      this.#deps.toMain({ kind: 'runs', firstKey, body, at: sharedNow() });
    }
    const isIdle = heard.runs + answer.cancel.length + call.items.length === 0 && this.#session.open.size === 0;
    this.#pace.answered({ ...call, isIdle, runs: heard.runs }, this.#room, now);
    for (const { run_id, lease_id, reason } of answer.cancel) {
      const run = this.#held.find({ run_id, lease_id });
      if (run === undefined || run.cancelTold || run.reported) continue;
      run.cancelTold = true;
      this.#abort('cancelled', [run.key], reason === '' ? undefined : `The run was cancelled: ${reason}.`);
    }
    this.#checkpointsDone(call, answer);
    for (const refused of answer.refused) {
      this.#tell({ type: 'run_refused', run_id: refused.run_id, code: refused.code });
      const run = this.#held.find(refused);
      if (run === undefined) continue;
      this.#held.drop(run.key);
      this.#lost();
      if (run.reported) continue;
      this.#held.markOutlived(run.key);
      this.#abort('lease_lost', [run.key]);
    }
    if (answer.describe) this.#redescribe();
    if (answer.drain && !this.#draining) {
      this.#draining = true;
      this.#news = true;
      this.#deps.toMain({ kind: 'drain' });
    }
  }

  /** What is refused is told to the main thread as a lost lease. */
  #checkpointsDone(call: OpenCall, answer: Heard['answer']): void {
    const lost = new Set(answer.refused.map((refused) => this.#held.find(refused)?.key));
    const keys = call.items.flatMap(({ kind, key }) => (kind === 'checkpoint' && !lost.has(key) ? [key] : []));
    if (keys.length > 0) this.#deps.toMain({ kind: 'checkpoints_done', keys });
  }

  /** What the call carried was taken, or is to be sent again. */
  #concluded(call: OpenCall, taken: boolean): void {
    this.#held.countInFlight(call.items, -1);
    if (!taken) {
      this.#lost();
      this.#describe ||= call.describes;
      return this.#unsent.putBack(call.items);
    }
    this.#held.dropReported(call.items);
    this.#logsDone(call.items);
    this.#caution.taken(call, this.#unsent);
  }

  #failed(session: Session, call: OpenCall, error: unknown): void {
    if (session !== this.#session || !session.open.delete(call.n)) return;
    const failure = error instanceof PunctualError ? error : unreadable(error);
    if (failure.code === 'session_lost') {
      this.#loseSession('the server has ended it', performance.now() + notice_ms);
      if (this.#byeUntil !== null) return this.#end();
      return this.#pump();
    }
    this.#concluded(call, false);
    this.#news = true;
    const now = performance.now();
    this.#reach.pause(failure, now);
    if (this.#caution.isSuspicious(failure)) {
      this.#tell({ type: 'call_refused', code: failure.code, message: failure.message });
      const givenUp = this.#caution.refused(failure, call.items, { unsent: this.#unsent, held: this.#held, now });
      this.#logsDone(givenUp);
      for (const { key, kind } of givenUp)
        if (kind === 'checkpoint')
          this.#deps.toMain({ kind: 'checkpoint_refused', key, message: `The server refused it: ${failure.message}` });
    } else {
      this.#reach.unreachable(failure, now);
    }
    this.#pump();
  }

  /** A call that was overtaken and is still not answered: what it carried goes with the next one. */
  #giveUp(call: OpenCall): void {
    this.#session.open.delete(call.n);
    call.controller.abort(new Error('given up'));
    this.#concluded(call, false);
  }

  #loseSession(why: string, killAt: number): void {
    const lost = this.#held.loseAll().map((run) => run.key);
    this.#tell({ type: 'session_lost', message: `The lease of this worker was lost: ${why}.`, runs: lost.length });
    if (lost.length > 0) this.#abort('lease_lost', lost);
    for (const call of this.#session.open.values()) {
      call.controller.abort(new Error('the session was lost'));
      this.#logsDone(call.items);
    }
    this.#logsDone(this.#unsent.clear());
    if (this.#options.killOnLeaseLoss && lost.length > 0) this.#killIfTheyGoOn(lost, killAt);
    this.#session = new Session();
    this.#lost();
    this.#describe = true;
    this.#news = true;
  }

  #killIfTheyGoOn(keys: number[], at: number): void {
    const kill = (): void => {
      if (keys.some((key) => this.#held.goesOn(key))) this.#deps.kill();
    };
    setTimeout(kill, Math.max(0, at - performance.now()));
  }

  /** The main thread is blocked so thoroughly that it cannot even report a timeout. */
  #giveUpOverdue(now: number): void {
    for (const run of this.#held.overdue(now)) {
      const error = new RunAbortedError(
        'timed_out',
        'The attempt took longer than its timeout, and its handler does not give way.',
      );
      run.reported = true;
      this.#unsent.push({ key: run.key, kind: 'outcome', text: failureText(run, error, { timed_out: true }) });
      this.#held.markOutlived(run.key);
      this.#redescribe();
      this.#abort('timed_out', [run.key]);
    }
  }

  #ended(key: number): void {
    if (this.#held.markEnded(key)) this.#redescribe();
  }

  /** The number of free slots has changed for good: the server must know. */
  #redescribe(): void {
    this.#describe = true;
    this.#news = true;
  }

  #abort(reason: AbortReason, keys: number[], message?: string): void {
    this.#deps.toMain({ kind: 'abort', reason, keys, ...(message === undefined ? {} : { message }) });
  }

  #logsDone(items: Item[]): void {
    const logs = items.filter((item) => item.kind === 'log');
    if (logs.length === 0) return;
    this.#deps.toMain({
      kind: 'logs_done',
      keys: logs.map((item) => item.key),
      chars: logs.map((item) => item.text.length),
    });
  }

  #tell(event: WorkerEvent): void {
    this.#deps.toMain({ kind: 'event', event });
  }

  #end(): void {
    this.#gone = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    for (const call of this.#session.open.values()) call.controller.abort(new Error('the worker has stopped'));
    this.#deps.toMain({ kind: 'gone' });
  }

  #setTimer(now: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    const session = this.#session;
    const hasToSay = this.#news || (this.#unsent.length > 0 && this.#caution.maxItems > 0);
    const mayOpen = this.#roaming.isOn(now) ? !this.#isBusyAlone : session.open.size < max_open_calls;
    const sendAt = Math.min(
      this.#beatAt(now),
      hasToSay && mayOpen ? this.#talkAt : Number.POSITIVE_INFINITY,
      this.#shouldListen && mayOpen ? this.#pace.quietAt : Number.POSITIVE_INFINITY,
    );
    const at = Math.min(
      Math.max(sendAt, this.#reach.pauseUntil),
      session.stopAt,
      this.#held.nextGiveUpAt,
      this.#byeUntil ?? Number.POSITIVE_INFINITY,
    );
    // Timers fire up to a millisecond early; the longest delay a timer can hold is 2^31 ms.
    this.#timer = setTimeout(() => this.#pump(), Math.min(Math.max(1, Math.ceil(at - now)), 2 ** 31 - 1));
  }
}

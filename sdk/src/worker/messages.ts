// What the main thread (handlers) and the protocol thread say to each other. Runs are named by small numbers, texts are
// finished JSON and lists are parallel arrays, because copying objects between threads would cost more than the runs.
import type { WorkerDescription } from '@punctual/contract';
import type { SyncBody } from './sync-answer.ts';

export interface ThreadOptions {
  url: string;
  apiKey?: string | undefined;
  workerId: string;
  description: WorkerDescription;
  /** End the process when handlers still run at the end of a lost lease. */
  killOnLeaseLoss: boolean;
  stopGraceMs: number;
}

/** Why a run is to stop. */
export type AbortReason = 'cancelled' | 'timed_out' | 'lease_lost' | 'shutdown';

/** What became of runs since the last report. */
export interface Report {
  kind: 'report';
  /** Runs with an outcome, and each outcome as JSON, or as `plainSuccess`. */
  keys: number[];
  outcomes: string[];
  /** Runs that logged, and each chunk of lines as JSON. */
  logKeys: number[];
  logs: string[];
  /** Runs that saved a checkpoint, and each as JSON. */
  checkpointKeys: number[];
  checkpoints: string[];
  /** Runs that said how far they are, and each report as JSON. */
  progressKeys: number[];
  progress: string[];
  /** Runs with an outcome whose handler does not end: they still take a slot. */
  stuck: number[];
  /** Runs without an outcome to report whose handler has ended now. */
  freed: number[];
}

export type ToThread = Report | { kind: 'drain' } | { kind: 'bye' };

export type FromThread =
  /** New runs: `body` is the answer that granted them, which came `at`; they are numbered from `firstKey`. */
  | { kind: 'runs'; firstKey: number; body: SyncBody; at: number }
  | { kind: 'abort'; reason: AbortReason; keys: number[]; message?: string }
  /** Chunks of lines that were taken by the server or dropped: their room is free again. */
  | { kind: 'logs_done'; keys: number[]; chars: number[] }
  /** The checkpoints of these runs that were on the way are accepted. */
  | { kind: 'checkpoints_done'; keys: number[] }
  /** The server refuses the checkpoint of a run that goes on. */
  | { kind: 'checkpoint_refused'; key: number; message: string }
  /** The server asked to take nothing new, or no longer asks. */
  | { kind: 'drain' }
  | { kind: 'event'; event: WorkerEvent }
  /** The last message: goodbye was said or given up. */
  | { kind: 'gone' };

/** What a worker tells whoever runs it. */
export type WorkerEvent =
  | { type: 'connected'; server_id: string; session_id: string }
  | { type: 'unreachable'; message: string }
  | { type: 'reachable'; after_ms: number }
  | { type: 'session_lost'; message: string; runs: number }
  | { type: 'run_refused'; run_id: string; code: string }
  | { type: 'call_refused'; code: string; message: string }
  | { type: 'draining'; asked_by: 'server' | 'worker' }
  | { type: 'failed'; message: string }
  | { type: 'stopped' };

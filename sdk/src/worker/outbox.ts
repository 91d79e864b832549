// Gathers what the main thread has to tell the protocol thread and sends it as one message for each turn of the event
// loop: a message costs more than a run. Used by worker.ts and active-run.ts.
import type { Report } from './messages.ts';

export class Outbox {
  readonly #send: (report: Report) => void;
  #report: Report | null = null;

  constructor(send: (report: Report) => void) {
    this.#send = send;
  }

  /** The run has ended with this outcome, given as JSON or as `plainSuccess`. */
  outcome(key: number, text: string): void {
    const report = this.#open();
    report.keys.push(key);
    report.outcomes.push(text);
  }

  /** The outcome counts, but the handler goes on. */
  stuckOutcome(key: number, text: string): void {
    this.outcome(key, text);
    this.#open().stuck.push(key);
  }

  /** The handler of a run that has no outcome to report, or has reported it, ended. */
  freed(key: number): void {
    this.#open().freed.push(key);
  }

  logs(key: number, text: string): void {
    const report = this.#open();
    report.logKeys.push(key);
    report.logs.push(text);
  }

  checkpoint(key: number, text: string): void {
    const report = this.#open();
    report.checkpointKeys.push(key);
    report.checkpoints.push(text);
  }

  progress(key: number, text: string): void {
    const report = this.#open();
    report.progressKeys.push(key);
    report.progress.push(text);
  }

  flush(): void {
    const report = this.#report;
    this.#report = null;
    if (report !== null) this.#send(report);
  }

  #open(): Report {
    if (this.#report === null) {
      this.#report = emptyReport();
      setImmediate(() => this.flush());
    }
    return this.#report;
  }
}

export function emptyReport(): Report {
  return {
    kind: 'report',
    keys: [],
    outcomes: [],
    logKeys: [],
    logs: [],
    checkpointKeys: [],
    checkpoints: [],
    progressKeys: [],
    progress: [],
    stuck: [],
    freed: [],
  };
}

// A worker by hand: speaks the protocol call by call, so that a test can lose answers, be late, or lie.
import { randomUUID } from 'node:crypto';
import type { Grant, Outcome, Problem, SyncAnswer, SyncRequest } from '@punctual/contract';

type HandRequest = Partial<SyncRequest> & { url?: string; signal?: AbortSignal };

export class Hand {
  readonly id: string;
  readonly url: string;
  session_id = randomUUID() as string;
  n = 0;
  #described = false;
  readonly #types: string[];
  readonly #slots: number;
  readonly #queues: string[] | null;
  readonly #waits: boolean;

  constructor(
    url: string,
    options: { id?: string; types?: string[]; slots?: number; queues?: string[]; waits?: boolean } = {},
  ) {
    this.url = url;
    this.id = options.id ?? `hand-${randomUUID().slice(0, 8)}`;
    this.#types = options.types ?? ['echo'];
    this.#slots = options.slots ?? 10;
    this.#queues = options.queues ?? null;
    this.#waits = options.waits ?? false;
  }

  /** A new session, as of a worker that was told that its old one is lost. */
  begin(): void {
    this.session_id = randomUUID();
    this.n = 0;
    this.#described = false;
  }

  /** One call, by default one that does not wait and follows all earlier ones. */
  async call(request: HandRequest = {}): Promise<SyncAnswer> {
    const answer = JSON.parse(await this.ask('application/json', request)) as SyncAnswer;
    // A server that does not know the session asks what the worker is.
    if (answer.describe) this.#described = false;
    return answer;
  }

  /** The same, with the answer as text of this kind. */
  async ask(accept: string, request: HandRequest = {}): Promise<string> {
    const { url = this.url, signal, ...rest } = request;
    this.n++;
    const body: SyncRequest = {
      session_id: this.session_id,
      n: this.n,
      concluded: this.n - 1,
      running: [],
      accept: true,
      wait: false,
      ...(this.#described
        ? {}
        : {
            worker: {
              host: 'test',
              pid: 1,
              version: '0',
              slots: this.#slots,
              types: this.#types,
              executors: [],
              queues: this.#queues,
              waits: this.#waits,
            },
          }),
      ...rest,
    };
    this.#described = true;
    const response = await fetch(`${url}/workers/${this.id}/sync`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept },
      body: JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    });
    const text = await response.text();
    if (response.status !== 200)
      throw Object.assign(new Error(`sync answered ${response.status}`), { code: (JSON.parse(text) as Problem).code });
    return text;
  }

  /** Waits until it is granted at least one run. */
  async take(running: readonly string[] = [], url = this.url): Promise<Grant[]> {
    for (const deadline = performance.now() + 60_000; performance.now() < deadline; ) {
      const { runs } = await this.call({ wait: true, running: [...running], url });
      if (runs.length > 0) return runs;
    }
    throw new Error('no run was granted');
  }
}

export function outcome(run: { run_id: string; lease_id: string }, more: Partial<Outcome> = {}): Outcome {
  return { run_id: run.run_id, lease_id: run.lease_id, status: 'SUCCESS', ...more };
}

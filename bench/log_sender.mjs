// A worker by hand that holds runs and does nothing but log, and the lines it logs.
import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';

/** How much an attempt may log is bounded; this is well below. */
const linesARun = 50_000;
const linesAChunk = 250;
const chunksACall = 8;
export const linesACall = linesAChunk * chunksACall;

export class LogSender {
  n = 0;
  session_id = randomUUID();
  runs = [];
  #slots;
  #chunk = 0;
  /** One connection; fetch would copy what it sends once more. */
  #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(url, name, lines) {
    this.#slots = Math.max(1, Math.ceil(lines / linesARun));
    this.url = `${url}/workers/${name}/sync`;
    this.worker = {
      host: 'bench',
      pid: 1,
      version: '0',
      slots: this.#slots,
      types: ['mail', 'report'],
      executors: [],
      queues: null,
    };
  }

  /** Submits the runs it logs for, and takes them. */
  async open(client) {
    for (let i = 0; i < this.#slots; i++)
      await client.jobs.create({
        type: i % 10 === 0 ? 'report' : 'mail',
        user_id: `u${i % 7}`,
        timeout_ms: 86_400_000,
      });
    while (this.runs.length < this.#slots) await this.call({ wait: this.n > 0 });
  }

  /** `logs` is JSON, as bytes. */
  async call(more = {}, logs = null) {
    this.n += 1;
    const { session_id, n, worker } = this;
    const running = this.runs.map(({ run_id }) => run_id);
    const head = JSON.stringify({
      session_id,
      n,
      concluded: n - 1,
      running,
      accept: this.runs.length < this.#slots,
      wait: false,
      ...(n === 1 ? { worker } : {}),
      ...more,
    });
    const said = JSON.parse(await this.#post(logs === null ? [head] : [`${head.slice(0, -1)},"logs":`, logs, '}']));
    if (said.refused.length > 0) throw new Error('lines were refused');
    this.runs.push(...said.runs);
  }

  #post(parts) {
    const headers = {
      'content-type': 'application/json',
      'content-length': parts.reduce((sum, part) => sum + Buffer.byteLength(part), 0),
    };
    return new Promise((resolve, reject) => {
      const asked = request(this.url, { method: 'POST', headers, agent: this.#agent }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part) => {
          text += part;
        });
        answer.on('error', reject).on('end', () => {
          if (answer.statusCode === 200) resolve(text);
          else reject(new Error(`sync was answered with ${answer.statusCode}: ${text}`));
        });
      });
      asked.on('error', reject);
      for (const part of parts) asked.write(part);
      asked.end();
    });
  }

  close() {
    this.#agent.destroy();
  }

  /** The lines of one call as JSON, from the line with that number on. */
  prepare(from) {
    const at = new Date().toISOString();
    const chunks = Array.from({ length: chunksACall }, (_, k) => {
      const { run_id, lease_id } = this.runs[this.#chunk++ % this.runs.length];
      const lines = Array.from({ length: linesAChunk }, (_line, l) => lineOf(from + k * linesAChunk + l, at));
      return { run_id, lease_id, lines };
    });
    return Buffer.from(JSON.stringify(chunks));
  }
}

const verbs = ['sent', 'queued', 'failed', 'retried', 'accepted', 'delivered', 'rejected', 'opened'];
const things = ['payment', 'mail', 'order', 'invoice', 'refund', 'session', 'report', 'picture', 'login', 'export'];
const levels = ['info', 'info', 'info', 'info', 'debug', 'warn', 'info', 'info', 'error', 'info'];

/** About 75 characters: words that stand everywhere, some that are rare, and an id of its own; a millisecond after the one before. */
export function lineOf(i, at) {
  const scrambled = (i * 2654435761) % 4294967296;
  const id = scrambled.toString(16).padStart(8, '0');
  const rare = i % 10_007 === 0 ? ' needle' : '';
  const message = `${things[scrambled % 10]} ${id} ${verbs[(scrambled >> 8) & 7]} for user ${scrambled % 50_000} in ${i % 977} ms via host-${i % 23}.example.com${rare}`;
  return { at: `${at.slice(0, 20)}${String(i % 1000).padStart(3, '0')}Z`, level: levels[i % 10], message };
}

// What the CLI takes from its environment beside the configuration, which server/config.ts reads: whether colours are
// refused, what a child process may inherit, what files name, and the standard variables of OpenTelemetry. No other file of the
// CLI looks at process.env.

/** https://no-color.org: set and not empty means no colours. */
export function refusesColor(env: NodeJS.ProcessEnv = process.env): boolean {
  return (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb';
}

/** What a file that is applied names by `!env`. */
export function environmentValue(name: string, env: NodeJS.ProcessEnv = process.env): string | undefined {
  return env[name];
}

/** The environment of a worker: everything but the database's address and keys, which no worker needs and no job may read. */
export function workerEnvironment(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  const withheld = new Set(['DATABASE_URL', 'PUNCTUAL_ENCRYPTION_KEYS', 'PUNCTUAL_ENCRYPTION_KEYS_FILE']);
  return Object.fromEntries(Object.entries(env).filter(([name]) => !withheld.has(name)));
}

export interface TelemetryVariables {
  protocol: string | null;
  /** Spans that may wait. */
  maxQueue: number;
}

const defaultQueue = 2048;
/** Some hundred megabytes. */
const largestQueue = 100_000;

/** Whether and how spans are sent; null when no endpoint is named, or telemetry is switched off. All else the library reads. */
export function telemetryVariables(env: NodeJS.ProcessEnv = process.env): TelemetryVariables | null {
  const get = (name: string): string => (env[name] ?? '').trim();
  const endpoint = get('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT') || get('OTEL_EXPORTER_OTLP_ENDPOINT');
  const isOff = get('OTEL_SDK_DISABLED').toLowerCase() === 'true' || get('OTEL_TRACES_EXPORTER') === 'none';
  if (endpoint === '' || isOff) return null;
  const queue = Number(get('OTEL_BSP_MAX_QUEUE_SIZE'));
  return {
    protocol: get('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL') || get('OTEL_EXPORTER_OTLP_PROTOCOL') || null,
    maxQueue: queue >= 1 ? Math.min(queue, largestQueue) : defaultQueue,
  };
}

/** The trace that a command belongs to, as a program that runs within one finds it in its environment. */
export function traceparentVariable(env: NodeJS.ProcessEnv = process.env): string | undefined {
  return env['TRACEPARENT'] === '' ? undefined : env['TRACEPARENT'];
}

// What the CLI takes from its environment beside the configuration, which server/config.ts reads: whether colours are
// refused, what a child process may inherit, and what files name. No other file of the CLI looks at process.env.

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

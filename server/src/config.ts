// The configuration: one frozen schema, read once from the environment, here and nowhere else. Unknown PUNCTUAL_ keys are
// an error with a suggestion, so that a typing error is never silently a default. docs/configuration.md is made from it.

import { configKeys, type Key } from './config_keys.ts';
import { closest } from './rules/closest.ts';

export { configKeys };

type ValueOf<K extends Key> = K['kind'] extends 'integer'
  ? number
  : K['kind'] extends 'boolean'
    ? boolean
    : K['kind'] extends 'list'
      ? readonly string[]
      : null extends K['default']
        ? string | null
        : string;

export type Config = { readonly [K in keyof typeof configKeys]: ValueOf<(typeof configKeys)[K]> };

/** Wrong configuration: one sentence for each wrong key. */
export class ConfigError extends Error {
  override name = 'ConfigError';
}

export function readConfig(env: NodeJS.ProcessEnv = process.env, overrides: Partial<Config> = {}): Config {
  const problems: string[] = unknownKeys(env);
  const values: Record<string, unknown> = {};
  for (const [name, key] of Object.entries(configKeys) as [string, Key][]) {
    const text = env[key.env];
    try {
      values[name] = text === undefined || text === '' ? key.default : parse(key, text);
    } catch (error) {
      problems.push((error as Error).message);
    }
  }
  const config = Object.freeze({ ...values, ...overrides }) as unknown as Config;
  if (problems.length === 0 && 3 * config.heartbeat_ms > config.lease_ms - config.lease_margin_ms) {
    problems.push(
      `PUNCTUAL_LEASE_MS (${config.lease_ms}) is too short: three heartbeats (3 × ${config.heartbeat_ms} ms) must fit into the lease less its margin (${config.lease_margin_ms} ms).`,
    );
  }
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));
  return config;
}

/** What `punctual config` prints: every key, its value with secrets hidden, and whether it was set. */
export function describeConfig(
  config: Config,
): { key: string; env: string; value: string; isDefault: boolean; meaning: string }[] {
  return (Object.entries(configKeys) as [keyof Config, Key][]).map(([name, key]) => {
    const value = config[name];
    const text = value === null ? '' : Array.isArray(value) ? value.join(',') : String(value);
    return {
      key: name,
      env: key.env,
      // Of the address of the database only the password is secret, all else as a whole.
      value: key.kind !== 'secret' ? text : name === 'database_url' ? hideSecret(text) : text === '' ? '' : '***',
      isDefault: JSON.stringify(value) === JSON.stringify(key.default),
      meaning: key.meaning,
    };
  });
}

/** A text in which addresses of databases may stand, without their passwords. */
export function hideSecret(text: string): string {
  return text.replace(/(:\/\/[^:@/]*):[^@/]*@/, '$1:***@').replace(/(password=)[^&\s]*/gi, '$1***');
}

/** Names that are not ours to know: secrets of workers, and what the tests use. */
function isFree(name: string): boolean {
  return /^PUNCTUAL_(SECRET|TEST)_./.test(name);
}

function unknownKeys(env: NodeJS.ProcessEnv): string[] {
  const known = Object.values(configKeys).map((key) => key.env as string);
  return Object.keys(env)
    .filter((name) => name.startsWith('PUNCTUAL_') && !known.includes(name) && !isFree(name))
    .map((name) => {
      const near = closest(name, known);
      return `${name} is not a configuration key${near === null ? '; `punctual config` lists them' : `; did you mean ${near}?`}.`;
    });
}

function parse(key: Key, text: string): unknown {
  if (key.kind === 'integer') {
    const value = Number(text);
    const { min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER } = key;
    if (!Number.isInteger(value) || value < min || value > max) {
      throw new Error(`${key.env} is ${JSON.stringify(text)}; it must be a whole number from ${min} to ${max}.`);
    }
    return value;
  }
  if (key.kind === 'boolean') {
    if (text === 'true' || text === '1') return true;
    if (text === 'false' || text === '0') return false;
    throw new Error(`${key.env} is ${JSON.stringify(text)}; it must be true or false.`);
  }
  if (key.kind === 'list') {
    return text
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== '');
  }
  if (key.oneOf !== undefined && !key.oneOf.includes(text)) {
    throw new Error(`${key.env} is ${JSON.stringify(text)}; it must be one of ${key.oneOf.join(', ')}.`);
  }
  return text;
}

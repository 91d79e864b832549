// What keeps a server from starting, as one sentence for people: what is wrong, where, how to mend it.
import { openVault, type Vault } from './base/vault.ts';
import { type Config, hideSecret } from './config.ts';

export class StartError extends Error {
  override name = 'StartError';
}

/** Turns what `pg` throws while connecting or migrating into a sentence. */
export function explainDatabaseError(error: unknown, url: string): StartError {
  const { code, message } = error as { code?: string; message: string };
  const where = hideSecret(url);
  const sentence =
    sentenceFor(code ?? causeCode(error), where) ??
    `PostgreSQL at ${where} cannot be used: ${hideSecret(message || String(code))}`;
  return new StartError(sentence, { cause: error });
}

function sentenceFor(code: string | undefined, where: string): string | null {
  switch (code) {
    case 'ERR_INVALID_URL':
      return `DATABASE_URL is not a URL; write it like postgres://user:password@host:5432/database.`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `The host of DATABASE_URL (${where}) is not known; check its name.`;
    case 'ECONNREFUSED':
      return `Nothing listens at ${where}; start PostgreSQL there or correct DATABASE_URL.`;
    case 'ENOENT':
      return `No PostgreSQL socket is at ${where}; start PostgreSQL there or correct DATABASE_URL.`;
    case 'ETIMEDOUT':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return `PostgreSQL at ${where} does not answer; check the address, the port and firewalls.`;
    case '28P01':
    case '28000':
      return `PostgreSQL at ${where} refused the user or password; correct them in DATABASE_URL.`;
    case '3D000':
      return `The database of DATABASE_URL (${where}) does not exist; create it first.`;
    case '42501':
      return `The user of DATABASE_URL (${where}) may not create tables; run: grant create on database <name> to <user>.`;
    case '53300':
      return `PostgreSQL at ${where} has no connection left; raise max_connections or lower PUNCTUAL_POOL_SIZE.`;
    default:
      return null;
  }
}

function causeCode(error: unknown): string | undefined {
  const { cause, message, errors } = error as {
    cause?: { code?: string };
    message?: string;
    errors?: { code?: string }[];
  };
  if (cause?.code !== undefined) return cause.code;
  if (errors?.[0]?.code !== undefined) return errors[0].code;
  if (/timeout/i.test(message ?? '')) return 'ETIMEDOUT';
  if (/password must be a string|SASL/i.test(message ?? '')) return '28P01';
  return undefined;
}

/** The vault with the encryption keys of the configuration. */
export function vaultOf(config: Pick<Config, 'encryption_keys' | 'encryption_keys_file'>): Vault {
  try {
    return openVault({ keys: config.encryption_keys, file: config.encryption_keys_file });
  } catch (error) {
    throw new StartError((error as Error).message, { cause: error });
  }
}

// What goes wrong around the embedded PostgreSQL, in sentences for people. Every function of this folder throws this
// class and nothing else for foreseeable trouble; the message alone is enough to act on, the cause is for the log.

export class EmbeddedPostgresError extends Error {
  override name = 'EmbeddedPostgresError';
}

const REASONS: Record<string, string> = {
  EACCES: 'permission was denied',
  EPERM: 'permission was denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  ENOTDIR: 'a part of the path is not a folder',
  EEXIST: 'a file of that name is in the way',
  ELOOP: 'the path holds a loop of symbolic links',
};

export function errno(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** Turns an error of the file system into a sentence: "Cannot <doing>: <reason>." */
export function cannot(doing: string, error: unknown): EmbeddedPostgresError {
  const reason = REASONS[errno(error)] ?? (error instanceof Error ? error.message : String(error));
  return new EmbeddedPostgresError(`Cannot ${doing}: ${reason}.`, { cause: error });
}

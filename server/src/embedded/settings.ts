// The settings PostgreSQL is started with: sized for this machine, safe by default. Pure; index.ts passes them on the
// command line, so an old cluster gets new defaults and nobody has to edit postgresql.conf.
import { EmbeddedPostgresError } from './failure.ts';

const MB = 1024 * 1024;

export function settingsFor(memoryBytes: number, durable: boolean): Record<string, string> {
  const megabytes = (share: number, least: number, most: number) =>
    `${Math.floor(Math.min(most, Math.max(least, memoryBytes / MB / share)))}MB`;
  return {
    shared_buffers: megabytes(4, 32, 1024),
    effective_cache_size: megabytes(2, 64, 65_536),
    maintenance_work_mem: megabytes(16, 16, 256),
    work_mem: '8MB',
    max_connections: '100',
    wal_buffers: '16MB',
    min_wal_size: '256MB',
    max_wal_size: '4GB',
    checkpoint_timeout: '15min',
    checkpoint_completion_target: '0.9',
    random_page_cost: '1.1',
    // Rows of a queue die young: look for them more often than once a minute.
    autovacuum_naptime: '10s',
    // Parallel plans need /dev/shm, 64 MB in most containers, and take cores away from claims.
    max_parallel_workers_per_gather: '0',
    jit: 'off',
    timezone: 'UTC',
    log_timezone: 'UTC',
    lc_messages: 'C',
    log_destination: 'stderr',
    logging_collector: 'off',
    log_line_prefix: '[%p] ',
    log_checkpoints: 'off',
    ...(durable ? {} : FORGETFUL),
  };
}

// For tests: the cluster is thrown away afterwards, so nothing waits for a disk, and nothing stays in /dev/shm when it
// is killed and its folder removed.
const FORGETFUL: Record<string, string> = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  wal_level: 'minimal',
  max_wal_senders: '0',
  dynamic_shared_memory_type: 'mmap',
  shared_buffers: '128MB',
  max_wal_size: '1GB',
};

const OURS = new Set([
  'data_directory',
  'hba_file',
  'ident_file',
  'listen_addresses',
  'port',
  'unix_socket_directories',
  'unix_socket_permissions',
  'logging_collector',
]);

/** Refuses settings that would open the door this folder keeps shut, and names PostgreSQL could misread. */
export function checkSettings(settings: Record<string, string>): void {
  for (const [name, value] of Object.entries(settings)) {
    if (OURS.has(name.toLowerCase())) {
      throw new EmbeddedPostgresError(`The setting ${name} of the embedded PostgreSQL cannot be changed.`);
    }
    if (!/^[a-z_][a-z0-9_.]*$/i.test(name) || value.includes('\0')) {
      throw new EmbeddedPostgresError(`${JSON.stringify(name)} is not a setting of PostgreSQL.`);
    }
  }
}

// Every key of the configuration: its name in the environment, what it may be, what it means. Read by config.ts;
// docs/configuration.md is made from it.
type Kind = 'string' | 'secret' | 'integer' | 'boolean' | 'list';

export interface Key {
  env: string;
  kind: Kind;
  default: string | number | boolean | readonly string[] | null;
  meaning: string;
  min?: number;
  max?: number;
  oneOf?: readonly string[];
}

export const configKeys = {
  database_url: {
    env: 'DATABASE_URL',
    kind: 'secret',
    default: null,
    meaning: 'A PostgreSQL (14 or newer) to use. Without it `punctual start` runs an embedded one.',
  },
  url: {
    env: 'PUNCTUAL_URL',
    kind: 'string',
    default: 'http://127.0.0.1:7600',
    meaning: 'Where workers and CLI commands find the server.',
  },
  host: { env: 'PUNCTUAL_HOST', kind: 'string', default: '127.0.0.1', meaning: 'The address the server listens on.' },
  port: {
    env: 'PUNCTUAL_PORT',
    kind: 'integer',
    default: 7600,
    min: 0,
    max: 65535,
    meaning: 'The port the server listens on; 0 takes a free one.',
  },
  trust_network: {
    env: 'PUNCTUAL_TRUST_NETWORK',
    kind: 'boolean',
    default: false,
    meaning:
      'Listen on an address others can reach without asking for API keys, as long as there are none: whoever reaches it can run jobs.',
  },
  auth: {
    env: 'PUNCTUAL_AUTH',
    kind: 'string',
    default: 'auto',
    oneOf: ['auto', 'on', 'off'],
    meaning:
      'Whether requests need an API key. `auto`: as soon as there is a key, and always on an address that others can reach. `on`: always; a server that finds no key makes the first one and prints it. `off`: never; only on loopback or with PUNCTUAL_TRUST_NETWORK.',
  },
  api_key: {
    env: 'PUNCTUAL_API_KEY',
    kind: 'secret',
    default: null,
    meaning: 'The API key that workers and CLI commands send.',
  },
  rate_limits: {
    env: 'PUNCTUAL_RATE_LIMITS',
    kind: 'list',
    default: [],
    meaning:
      'Requests a second and at once that each key of a role may send over all servers, such as `submitter=200/400,viewer=50`; no limit for roles that are not named. A key may have its own.',
  },
  data_dir: {
    env: 'PUNCTUAL_DATA_DIR',
    kind: 'string',
    default: '.punctual',
    meaning: 'The folder of the embedded PostgreSQL and of what belongs to this machine.',
  },
  segments: {
    env: 'PUNCTUAL_SEGMENTS',
    kind: 'integer',
    default: 16,
    min: 1,
    max: 4096,
    meaning:
      'Into how many segments the data is divided. Read at the first migration only; it cannot be changed later.',
  },
  pool_size: {
    env: 'PUNCTUAL_POOL_SIZE',
    kind: 'integer',
    default: 10,
    min: 2,
    max: 200,
    meaning: 'Connections to PostgreSQL a server holds at most.',
  },
  query_timeout_ms: {
    env: 'PUNCTUAL_QUERY_TIMEOUT_MS',
    kind: 'integer',
    default: 10_000,
    min: 100,
    max: 600_000,
    meaning: 'The deadline of every query; a connection that misses it is destroyed and replaced.',
  },
  heartbeat_ms: {
    env: 'PUNCTUAL_HEARTBEAT_MS',
    kind: 'integer',
    default: 4_000,
    min: 50,
    max: 600_000,
    meaning: 'How often a worker renews its lease.',
  },
  lease_ms: {
    env: 'PUNCTUAL_LEASE_MS',
    kind: 'integer',
    default: 15_000,
    min: 500,
    max: 3_600_000,
    meaning: 'How long a worker may be silent before its runs are given to others.',
  },
  lease_margin_ms: {
    env: 'PUNCTUAL_LEASE_MARGIN_MS',
    kind: 'integer',
    default: 3_000,
    min: 100,
    max: 600_000,
    meaning:
      'How long before the end of its lease a worker that cannot renew stops its work. 3 × heartbeat ≤ lease − margin.',
  },
  reap_interval_ms: {
    env: 'PUNCTUAL_REAP_INTERVAL_MS',
    kind: 'integer',
    default: 1_000,
    min: 20,
    max: 60_000,
    meaning: 'How often servers look for workers whose lease ended.',
  },
  poll_interval_ms: {
    env: 'PUNCTUAL_POLL_INTERVAL_MS',
    kind: 'integer',
    default: 1_000,
    min: 20,
    max: 60_000,
    meaning: 'How often servers look for work by themselves; normally they are told at once, this is the safety net.',
  },
  hand_over_ahead_ms: {
    env: 'PUNCTUAL_HAND_OVER_AHEAD_MS',
    kind: 'integer',
    default: 30,
    min: 0,
    max: 1_000,
    meaning:
      'How long before its time a run is handed to a worker with most of its slots free, which then starts it on the millisecond. 0: not before its time.',
  },
  stop_grace_ms: {
    env: 'PUNCTUAL_STOP_GRACE_MS',
    kind: 'integer',
    default: 10_000,
    min: 0,
    max: 3_600_000,
    meaning:
      'How long a stopping worker waits for its runs, and how long a cancelled program has between TERM and KILL.',
  },
  max_waiting_submits: {
    env: 'PUNCTUAL_MAX_WAITING_SUBMITS',
    kind: 'integer',
    default: 20_000,
    min: 1,
    max: 1_000_000,
    meaning: 'Jobs a server holds in memory while they are being written; more are answered with 429.',
  },
  max_open_body_mb: {
    env: 'PUNCTUAL_MAX_OPEN_BODY_MB',
    kind: 'integer',
    default: 64,
    min: 16,
    max: 65_536,
    meaning:
      'Megabytes of requests that a server holds in memory until they are answered; more are answered with 429. Each takes some times as much while it is read and written.',
  },
  retain_runs_days: {
    env: 'PUNCTUAL_RETAIN_RUNS_DAYS',
    kind: 'integer',
    default: 30,
    min: 0,
    max: 36_500,
    meaning:
      'Whole days that ended runs are kept, with their attempts, times in the ledger, and jobs that are done. 0 is for ever. Rules of queues and types go before it.',
  },
  retain_logs_days: {
    env: 'PUNCTUAL_RETAIN_LOGS_DAYS',
    kind: 'integer',
    default: 14,
    min: 0,
    max: 36_500,
    meaning: 'Whole days that log lines are kept, but not longer than their run. 0 is as long as the run.',
  },
  retain_submissions_days: {
    env: 'PUNCTUAL_RETAIN_SUBMISSIONS_DAYS',
    kind: 'integer',
    default: 7,
    min: 0,
    max: 36_500,
    meaning:
      'Whole days that an Idempotency-Key is remembered: longer than any client sends a submit again. 0 is for ever.',
  },
  retain_operations_days: {
    env: 'PUNCTUAL_RETAIN_OPERATIONS_DAYS',
    kind: 'integer',
    default: 90,
    min: 0,
    max: 36_500,
    meaning: 'Whole days that the record of an operation is kept after its end. 0 is for ever.',
  },
  retain_artifacts_days: {
    env: 'PUNCTUAL_RETAIN_ARTIFACTS_DAYS',
    kind: 'integer',
    default: 7,
    min: 0,
    max: 36_500,
    meaning: 'Days that an artifact is kept that no job, workflow or kept run refers to any more. 0 is for ever.',
  },
  artifacts_dir: {
    env: 'PUNCTUAL_ARTIFACTS_DIR',
    kind: 'string',
    default: null,
    meaning:
      'The folder of the content of artifacts, which all servers must share; `artifacts` in the data folder unless given. Not used with S3.',
  },
  artifacts_max_mb: {
    env: 'PUNCTUAL_ARTIFACTS_MAX_MB',
    kind: 'integer',
    default: 1024,
    min: 1,
    max: 1_048_576,
    meaning: 'Megabytes an artifact may have.',
  },
  s3_bucket: {
    env: 'PUNCTUAL_S3_BUCKET',
    kind: 'string',
    default: null,
    meaning: 'The bucket of the content of artifacts; without it they are kept in a folder.',
  },
  s3_endpoint: {
    env: 'PUNCTUAL_S3_ENDPOINT',
    kind: 'string',
    default: null,
    meaning:
      'Where a service that speaks S3 is, such as https://minio:9000; AWS unless given. Clients must reach it too.',
  },
  s3_region: { env: 'PUNCTUAL_S3_REGION', kind: 'string', default: 'us-east-1', meaning: 'The region of the bucket.' },
  s3_path_style: {
    env: 'PUNCTUAL_S3_PATH_STYLE',
    kind: 'boolean',
    default: false,
    meaning: 'The bucket is the first step of the path and not a part of the host name, as MinIO and others have it.',
  },
  s3_prefix: {
    env: 'PUNCTUAL_S3_PREFIX',
    kind: 'string',
    default: 'artifacts/',
    meaning: 'What the names of objects in the bucket begin with.',
  },
  s3_access_key_id: { env: 'PUNCTUAL_S3_ACCESS_KEY_ID', kind: 'secret', default: null, meaning: 'Who asks S3.' },
  s3_secret_access_key: {
    env: 'PUNCTUAL_S3_SECRET_ACCESS_KEY',
    kind: 'secret',
    default: null,
    meaning: 'The secret that belongs to it.',
  },
  alert_interval_ms: {
    env: 'PUNCTUAL_ALERT_INTERVAL_MS',
    kind: 'integer',
    default: 10_000,
    min: 50,
    max: 3_600_000,
    meaning: 'How often each alert rule is checked, by one of the servers.',
  },
  delivery_timeout_ms: {
    env: 'PUNCTUAL_DELIVERY_TIMEOUT_MS',
    kind: 'integer',
    default: 10_000,
    min: 50,
    max: 120_000,
    meaning: 'How long the receiver of an alert or an event may take to answer.',
  },
  delivery_backoff_ms: {
    env: 'PUNCTUAL_DELIVERY_BACKOFF_MS',
    kind: 'integer',
    default: 5_000,
    min: 10,
    max: 600_000,
    meaning:
      'The pause after the first failure to deliver; each further one is twice as long, up to 720 times this, and is spread by half.',
  },
  delivery_max_attempts: {
    env: 'PUNCTUAL_DELIVERY_MAX_ATTEMPTS',
    kind: 'integer',
    default: 20,
    min: 1,
    max: 100,
    meaning: 'How often a delivery is tried before it is given up: 20 attempts take some ten hours.',
  },
  retain_audit_days: {
    env: 'PUNCTUAL_RETAIN_AUDIT_DAYS',
    kind: 'integer',
    default: 365,
    min: 0,
    max: 36_500,
    meaning: 'Whole days that the audit log is kept, and API keys after their end. 0 is for ever.',
  },
  worker_id: {
    env: 'PUNCTUAL_WORKER_ID',
    kind: 'string',
    default: null,
    meaning: 'The name of a worker; made from host and process id when not given.',
  },
  worker_slots: {
    env: 'PUNCTUAL_WORKER_SLOTS',
    kind: 'integer',
    default: 20,
    min: 1,
    max: 2000,
    meaning: 'How many runs a stock worker takes at once.',
  },
  worker_queues: {
    env: 'PUNCTUAL_WORKER_QUEUES',
    kind: 'list',
    default: [],
    meaning: 'The queues a stock worker serves, separated by commas, the first before the others; all when empty.',
  },
  worker_labels: {
    env: 'PUNCTUAL_WORKER_LABELS',
    kind: 'list',
    default: [],
    meaning: 'What a stock worker has that a job may require, separated by commas.',
  },
  allow_shell: {
    env: 'PUNCTUAL_ALLOW_SHELL',
    kind: 'boolean',
    default: false,
    meaning: 'Let a stock worker run `shell` jobs.',
  },
  allow_binary: {
    env: 'PUNCTUAL_ALLOW_BINARY',
    kind: 'boolean',
    default: false,
    meaning: 'Let a stock worker run `binary` jobs: programs that were uploaded as artifacts.',
  },
  binary_cache_mb: {
    env: 'PUNCTUAL_BINARY_CACHE_MB',
    kind: 'integer',
    default: 1024,
    min: 1,
    max: 1_048_576,
    meaning: 'Megabytes of programs of `binary` jobs that a worker keeps; those not used for longest go first.',
  },
  shell_publish_mb: {
    env: 'PUNCTUAL_SHELL_PUBLISH_MB',
    kind: 'integer',
    default: 1024,
    min: 0,
    max: 1_048_576,
    meaning: 'Megabytes of files that a program may publish through PUNCTUAL_OUTPUT_DIR; what is more is passed over.',
  },
  shell_user: {
    env: 'PUNCTUAL_SHELL_USER',
    kind: 'string',
    default: null,
    meaning:
      'Who programs of `shell` jobs run as when the worker is root: `nobody` unless set; `root` lets them do everything. A worker that is not root runs them as itself.',
  },
  shell_cgroup: {
    env: 'PUNCTUAL_SHELL_CGROUP',
    kind: 'string',
    default: null,
    meaning:
      'The folder of a cgroup in which the worker makes one for each program; of version 1 that in one tree, memory or pids, for both. Its own unless set, and `none` for no cgroups.',
  },
  shell_memory_mb: {
    env: 'PUNCTUAL_SHELL_MEMORY_MB',
    kind: 'integer',
    default: 2048,
    min: 0,
    max: 1_048_576,
    meaning:
      'Megabytes of memory a program and what it starts may use; a job can ask for less. 0 for no limit, here and below.',
  },
  shell_cpu_seconds: {
    env: 'PUNCTUAL_SHELL_CPU_SECONDS',
    kind: 'integer',
    default: 0,
    min: 0,
    max: 604_800,
    meaning: 'Seconds of processor time each process of a program may use.',
  },
  shell_processes: {
    env: 'PUNCTUAL_SHELL_PROCESSES',
    kind: 'integer',
    default: 512,
    min: 0,
    max: 100_000,
    meaning: 'Processes and threads a program may have at a time.',
  },
  shell_open_files: {
    env: 'PUNCTUAL_SHELL_OPEN_FILES',
    kind: 'integer',
    default: 4096,
    min: 0,
    max: 1_000_000,
    meaning: 'Files each process of a program may have open.',
  },
  shell_file_mb: {
    env: 'PUNCTUAL_SHELL_FILE_MB',
    kind: 'integer',
    default: 8192,
    min: 0,
    max: 1_048_576,
    meaning: 'Megabytes each file may have that a program writes.',
  },
  shell_output_mb: {
    env: 'PUNCTUAL_SHELL_OUTPUT_MB',
    kind: 'integer',
    default: 1024,
    min: 0,
    max: 1_048_576,
    meaning: 'Megabytes a program may write to standard output and standard error.',
  },
  http_allow: {
    env: 'PUNCTUAL_HTTP_ALLOW',
    kind: 'list',
    default: [],
    meaning:
      'Private hosts and CIDRs that the http executor of a worker and the webhooks and mail servers of a server may be at, separated by commas. Public addresses are always allowed.',
  },
  webhook_secret: {
    env: 'PUNCTUAL_WEBHOOK_SECRET',
    kind: 'secret',
    default: null,
    meaning:
      'Signs every call of the http executor as Standard Webhooks has it: `whsec_` and 24 to 64 bytes in base64. Several, separated by spaces, while one replaces the other.',
  },
  encryption_keys: {
    env: 'PUNCTUAL_ENCRYPTION_KEYS',
    kind: 'secret',
    default: null,
    meaning:
      'Keys for jobs and workflows with `encrypted: true`, as `name:key`, separated by commas; a key is 32 bytes in base64. The first encrypts, all decrypt. The same on every server.',
  },
  encryption_keys_file: {
    env: 'PUNCTUAL_ENCRYPTION_KEYS_FILE',
    kind: 'string',
    default: null,
    meaning: 'A file with those keys instead, one a line; lines that begin with # are passed over.',
  },
  secrets_dir: {
    env: 'PUNCTUAL_SECRETS_DIR',
    kind: 'string',
    default: null,
    meaning:
      'The folder in which a worker finds secrets that jobs refer to as `{{secret:NAME}}`: a file for each, named NAME. What is not there may be given as PUNCTUAL_SECRET_NAME.',
  },
  log_level: {
    env: 'PUNCTUAL_LOG_LEVEL',
    kind: 'string',
    default: 'info',
    oneOf: ['trace', 'debug', 'info', 'warn', 'error', 'silent'],
    meaning: 'How much the server logs.',
  },
  trace_url: {
    env: 'PUNCTUAL_TRACE_URL',
    kind: 'string',
    default: null,
    meaning:
      'Where people look at a trace, such as `https://tempo.example/trace/{trace_id}`: runs then show a link. Spans are sent where the variables of OpenTelemetry say, such as OTEL_EXPORTER_OTLP_ENDPOINT.',
  },
} as const satisfies Record<string, Key>;

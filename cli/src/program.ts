// The tree of commands: their names, summaries and groups, and how each is loaded. main.ts runs it; the completion of
// shells, the page docs/cli.md and tests walk it. Only the modules of the commands that were asked for are loaded, so that
// help and short commands are quick.
import { Command } from 'commander';
import { version } from './version.ts';
import { addWatch } from './watch.ts';

interface Entry {
  name: string;
  summary: string;
  group: string;
  /** It goes on when nobody reads its output any more. */
  stays?: true;
  load: () => Promise<(command: Command) => void>;
}

const running = 'Run Punctual:';
const using = 'Use it:';
const caring = 'Look after it:';

const entries: Entry[] = [
  {
    name: 'start',
    summary: 'Start everything: PostgreSQL, server, dashboard and a worker',
    group: running,
    stays: true,
    load: async () => (await import('./commands/start.ts')).addStart,
  },
  {
    name: 'server',
    summary: 'Start a server on the PostgreSQL of DATABASE_URL',
    group: running,
    stays: true,
    load: async () => (await import('./commands/server.ts')).addServer,
  },
  {
    name: 'worker',
    summary: 'Start a worker for http, shell and binary jobs, echo and sleep',
    group: running,
    stays: true,
    load: async () => (await import('./commands/worker.ts')).addWorker,
  },
  {
    name: 'jobs',
    summary: 'Create, list, show, change, cancel, run, pause and resume jobs, and see their times',
    group: using,
    load: async () => (await import('./commands/jobs.ts')).addJobs,
  },
  {
    name: 'runs',
    summary: 'List runs, show their attempts and their logs, cancel and retry them',
    group: using,
    load: async () => (await import('./commands/runs.ts')).addRuns,
  },
  {
    name: 'workflows',
    summary: 'Begin, check, list, show, cancel, pause, resume and retry workflows, and approve their steps',
    group: using,
    load: async () => (await import('./commands/workflows.ts')).addWorkflows,
  },
  {
    name: 'schedule',
    summary: 'Show the next times of a schedule before it is created',
    group: using,
    load: async () => (await import('./commands/schedule.ts')).addSchedule,
  },
  {
    name: 'calendars',
    summary: 'List, show, put and delete the calendars that schedules share',
    group: using,
    load: async () => (await import('./commands/calendars.ts')).addCalendars,
  },
  {
    name: 'backfills',
    summary: 'Make runs for past times of recurring jobs, see how far they are, cancel them',
    group: using,
    load: async () => (await import('./commands/backfills.ts')).addBackfills,
  },
  {
    name: 'forecast',
    summary: 'Show how many runs start when, and the slots they will need',
    group: using,
    load: async () => (await import('./commands/forecast.ts')).addForecast,
  },
  {
    name: 'stats',
    summary: 'Show how everything stands: what starts and ends, how late, what waits',
    group: using,
    load: async () => (await import('./commands/stats.ts')).addStats,
  },
  {
    name: 'top',
    summary: 'Watch how everything stands: throughput, backlogs, workers, long runs, failures',
    group: using,
    load: async () => (await import('./commands/top.ts')).addTop,
  },
  {
    name: 'import',
    summary: 'Make jobs of a crontab, of systemd timers or of Kubernetes CronJobs',
    group: using,
    load: async () => (await import('./commands/import.ts')).addImport,
  },
  {
    name: 'export',
    summary: 'Print recurring jobs, gates, limits, calendars, alerts and settings as YAML',
    group: using,
    load: async () => (await import('./commands/export.ts')).addExport,
  },
  {
    name: 'apply',
    summary: 'Make them as YAML files say, after showing what would change',
    group: using,
    load: async () => (await import('./commands/apply.ts')).addApply,
  },
  {
    name: 'diff',
    summary: 'Show what `apply` would change, for people and CI',
    group: using,
    load: async () => (await import('./commands/apply.ts')).addDiff,
  },
  {
    name: 'logs',
    summary: 'Search what all runs logged, and their errors',
    group: using,
    load: async () => (await import('./commands/logs.ts')).addLogs,
  },
  {
    name: 'artifacts',
    summary: 'Upload files, list, show, download and delete them',
    group: using,
    load: async () => (await import('./commands/artifacts.ts')).addArtifacts,
  },
  {
    name: 'dead-letters',
    summary: 'List and show runs that failed for good, redrive or discard them',
    group: using,
    load: async () => (await import('./commands/dead_letters.ts')).addDeadLetters,
  },
  {
    name: 'queues',
    summary: 'List, set, pause and resume queues',
    group: using,
    load: async () => (await import('./commands/queues.ts')).addQueues,
  },
  {
    name: 'gates',
    summary: 'Hold, drop and open types and queues; circuit breakers',
    group: using,
    load: async () => (await import('./commands/gates.ts')).addGates,
  },
  {
    name: 'operations',
    summary: 'Cancel, retry, redrive, reprioritise or move all jobs or runs that fit a filter',
    group: using,
    load: async () => (await import('./commands/operations.ts')).addOperations,
  },
  {
    name: 'limits',
    summary: 'Limit how many runs of a key start at once and how fast; share queues fairly between users',
    group: using,
    load: async () => (await import('./commands/limits.ts')).addLimits,
  },
  {
    name: 'retention',
    summary: 'Show and set how long history is kept, by queue and type',
    group: using,
    load: async () => (await import('./commands/retention.ts')).addRetention,
  },
  {
    name: 'alerts',
    summary: 'See what is wrong; rules, channels, silences, deliveries and subscriptions to events',
    group: using,
    load: async () => (await import('./commands/alerts.ts')).addAlerts,
  },
  {
    name: 'workers',
    summary: 'List the workers',
    group: using,
    load: async () => (await import('./commands/workers.ts')).addWorkers,
  },
  {
    name: 'keys',
    summary: 'Make, list, revoke and rotate API keys',
    group: caring,
    load: async () => (await import('./commands/keys.ts')).addKeys,
  },
  {
    name: 'audit',
    summary: 'Show who changed what through the API',
    group: caring,
    load: async () => (await import('./commands/audit.ts')).addAudit,
  },
  {
    name: 'doctor',
    summary: 'Examine this installation and say what is wrong',
    group: caring,
    load: async () => (await import('./commands/doctor.ts')).addDoctor,
  },
  {
    name: 'prune',
    summary: 'Remove old history now, or say how much there is',
    group: caring,
    load: async () => (await import('./commands/prune.ts')).addPrune,
  },
  {
    name: 'encryption',
    summary: 'Count encrypted values by key, and rotate the keys',
    group: caring,
    load: async () => (await import('./commands/encryption.ts')).addEncryption,
  },
  {
    name: 'config',
    summary: 'Print every setting, its value and its meaning',
    group: caring,
    load: async () => (await import('./commands/config.ts')).addConfig,
  },
  {
    name: 'completion',
    summary: 'Print the script that completes commands in bash, zsh or fish',
    group: caring,
    load: async () => (await import('./commands/completion.ts')).addCompletion,
  },
  {
    name: 'migrate',
    summary: 'Bring the database of DATABASE_URL up to date',
    group: caring,
    load: async () => (await import('./commands/migrate.ts')).addMigrate,
  },
];

/** All words of the command line, or 'all' for the whole tree. */
export async function buildProgram(words: readonly string[] | 'all'): Promise<Command> {
  const program = new Command('punctual')
    .description('A distributed job scheduler on PostgreSQL.')
    .exitOverride()
    .showHelpAfterError('(--help shows how it is used)')
    .version(version(), '-V, --version', 'Print the version')
    .option('--url <url>', 'Where the server is, instead of PUNCTUAL_URL')
    .option('--api-key <key>', 'The API key to send, instead of PUNCTUAL_API_KEY')
    .option('--json', 'Print JSON, for machines')
    .option('--verbose', 'Show where an unexpected failure happened')
    .helpOption('-h, --help', 'Show how it is used')
    .commandsGroup(caring)
    .helpCommand('help [command...]', 'Show how a command is used')
    .configureHelp({ showGlobalOptions: true })
    .addHelpText(
      'after',
      `
Examples:
  punctual start
  punctual jobs create --type echo --payload '{"greeting":"hello"}' --wait
  punctual jobs list --status pending
  punctual doctor`,
    );
  for (const { name, summary, group, load } of entries) {
    const command = program.command(name).description(summary).helpGroup(group).helpCommand(false);
    if (words !== 'all' && !words.includes(name)) continue;
    (await load())(command);
    addWatch(command);
  }
  return program;
}

/** Whether the command goes on when nobody reads its output any more. */
export function stays(words: readonly string[]): boolean {
  return entries.some((entry) => entry.stays && words.includes(entry.name));
}

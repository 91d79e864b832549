// Every limit of the wire, named, with its reason. Server, SDK and CLI read them from here; docs and errors quote them.

export const limits = {
  /** A request body; bulk submits of a thousand ordinary jobs fit with room. */
  max_body_bytes: 16 * 1024 * 1024,
  /** A payload is an instruction, not a file: larger data belongs in an artifact or the user's own store. */
  max_payload_bytes: 256 * 1024,
  /** Deeper JSON is an attack or an accident, and recursion over it would exhaust the stack. */
  max_payload_depth: 64,
  /** One transaction each: larger bulks hold locks too long. */
  max_bulk_jobs: 1000,
  /** A run that waits for more is better split by a job in between. */
  max_depends_on: 1000,
  /** Written in one statement with the jobs of the bulk. */
  max_bulk_edges: 10_000,
  /** Enough to see what holds a run up; the job shows all. */
  max_waits_for: 100,
  /** A result is an answer for people and next steps. */
  max_result_bytes: 1024 * 1024,
  max_error_message_chars: 16 * 1024,
  /** A checkpoint says how far the work is; what the work made belongs in the user's own store. */
  max_checkpoint_bytes: 1024 * 1024,
  /** A line beside a bar. */
  max_progress_chars: 200,
  /** A run that polls every hour may do so for a year; one that snoozes for ever is a mistake. */
  max_snoozes: 10_000,
  max_name_chars: 200,
  /** Types, queues, users, tags: names that appear in metrics, URLs and lanes. */
  max_label_chars: 128,
  max_tags: 16,
  /** Labels a job requires, and labels a worker has. */
  max_labels: 16,
  /** How much of a rate one run may use. */
  max_units: 1000,
  /** Who holds a place is counted whenever one becomes free. */
  max_key_concurrency: 10_000,
  max_rate_units: 1_000_000,
  /** A day: slower is a schedule. */
  max_rate_per_ms: 31 * 24 * 3600 * 1000,
  max_shown_holders: 100,
  /** Counts that are shown go no further: counting more costs more than it tells. */
  max_counted: 10_000,
  /** Every server keeps them in memory. */
  max_fair_queues: 1000,
  max_fair_weights: 1000,
  max_priority: 9,
  max_retries: 100,
  /** A week: longer work is better split into runs. */
  max_timeout_ms: 7 * 24 * 3600 * 1000,
  /** Beyond ten years a schedule is a typing error. */
  max_delay_ms: 10 * 365 * 24 * 3600 * 1000,
  /** All sixty minutes written out take 169. */
  max_cron_chars: 200,
  max_cron_expressions: 10,
  /** The longest name of a zone has 32. */
  max_timezone_chars: 64,
  /** Spreading over more than a day would move times to other dates. */
  max_jitter_ms: 24 * 3600 * 1000,
  max_catch_up_count: 1000,
  max_preview: 200,
  /** A backfill writes all its times in one transaction. */
  max_backfill_times: 100_000,
  /** More runs at once of one job are better made by several jobs. */
  max_backfill_concurrency: 100,
  /** Rows a dry run of an operation looks at, so that it is answered within a second or two; beyond them it says "at least". */
  max_operation_preview: 100_000,
  /** Schedules that are named for one minute: whoever spreads them begins with some. */
  max_minute_jobs: 50,
  /** Jobs that are named as using a calendar; their number is told in full. */
  max_calendar_jobs: 100,
  /** Dead letters that are looked at to put them into groups: a tenth of a second. */
  max_grouped_dead_letters: 10_000,
  /** More groups than that nobody reads. */
  max_dead_letter_groups: 100,
  /** Operations that go on at once: more of them only take turns. */
  max_operations: 20,
  max_backoff_ms: 24 * 3600 * 1000,
  /** An advance looks at all steps of a workflow; larger ones are better made of workflows within, or of a map. */
  max_steps: 1000,
  max_edges: 10_000,
  /** Items of a map: all their jobs may be made in one transaction. */
  max_items: 10_000,
  /** Payloads of all items of a map together: they are written in one transaction too. */
  max_items_bytes: 16 * 1024 * 1024,
  /** Workflows within workflows. */
  max_workflow_depth: 5,
  /** A definition is read and parsed whole whenever a server first advances the workflow. */
  max_definition_bytes: 4 * 1024 * 1024,
  /** Conditions of one step, nested ones counted. */
  max_conditions: 100,
  max_page: 200,
  /** Rows one page may look at while filtering, so that a search costs the same with ten million rows. */
  max_scan: 20_000,
  max_idempotency_key_chars: 200,
  max_unique_key_chars: 200,
  /** A key is remembered that long; beyond a year it is a typing error. */
  max_unique_period_ms: 366 * 24 * 3600 * 1000,
  max_slots: 2000,
  max_worker_types: 1000,
  max_outcomes: 4000,
  max_log_lines: 1000,
  max_log_line_chars: 8 * 1024,
  /** Of the log of one attempt, counted with some characters for each line: what comes after is counted, not kept. */
  max_attempt_log_chars: 16 * 1024 * 1024,
  /** Streams of log lines a server sends at once; each looks for new lines several times a second. */
  max_log_followers: 200,
  /** Streams of stats a server sends at once, one for each dashboard that is looked at. */
  max_stats_followers: 1000,
  /** What people search for, and the words in it. */
  max_search_chars: 500,
  max_search_words: 32,
  /** A search reads day by day. */
  max_search_days: 400,
  /** Of a line that is found; the run's log has it whole. */
  max_snippet_chars: 300,
  max_highlights: 20,
  /** Chunks of lines one page of a search may read, so that it costs the same however much was logged. */
  max_search_chunks: 1000,
  /** Lanes are made of names; without a bound a typing loop could make millions. */
  max_lanes: 20_000,
  /** Gates, settings of queues and limits of queues and types: every server keeps them all in memory. */
  max_rules: 10_000,
  max_concurrency: 1_000_000,
  /** A day: what fails more slowly is better watched by an alert. */
  max_breaker_ms: 24 * 3600 * 1000,
  max_ageing_ms: 7 * 24 * 3600 * 1000,
  max_expected_statuses: 50,
  /** What a template makes of a body: a part of the payload may stand in it many times. */
  max_http_body_bytes: 1024 * 1024,
  /** A terabyte of memory, of a file or of output: more is a typing error. The same for what follows. */
  max_shell_mb: 1024 * 1024,
  max_shell_cpu_seconds: 7 * 24 * 3600,
  max_shell_processes: 100_000,
  max_shell_open_files: 1_000_000,
  /** A terabyte; an installation allows less (PUNCTUAL_ARTIFACTS_MAX_MB). */
  max_artifact_bytes: 1024 ** 4,
  /** As many as S3 takes for one file. */
  max_artifact_parts: 10_000,
  /** Addresses that one answer holds; asking again gives the next. */
  max_part_addresses: 100,
  /** As long as the name of a file may be. */
  max_file_name_chars: 255,
  max_content_type_chars: 100,
  /** Uploads of a segment that have not ended: each holds room on the disk. */
  max_open_uploads: 1000,
  /** More files of one run are better packed into one. */
  max_run_artifacts: 100,
  /** A hundred years; who wants more says 0, for ever. */
  max_retention_days: 36_500,
  /** Looked up for every row that may have to go. */
  max_retention_rules: 1000,
  /** Each is a query every few seconds. */
  max_alert_rules: 200,
  /** Alerts of one rule that go on at once; a rule that finds more is better grouped more widely. */
  max_alert_groups: 1000,
  /** Alerts that one message names; it counts the others. */
  max_alerts_in_message: 20,
  /** A month: what is rarer is better looked at by people. */
  max_alert_ms: 31 * 24 * 3600 * 1000,
  max_silences: 1000,
  /** Each is asked for what is due, and subscriptions read what ended. */
  max_channels: 100,
  max_subscriptions: 20,
  max_rule_channels: 10,
  max_recipients: 50,
  max_channel_url_chars: 2000,
  /** Redriven in one statement. */
  max_redriven_deliveries: 1000,
  /** The list of keys is one page; applications share keys, people have a few. Ended ones count for as long as they are kept. */
  max_keys: 5000,
  /** Browsers that are signed in with one key at a time; the oldest session ends when there is one more. */
  max_sessions: 50,
  max_key_rate: 1_000_000,
  /** A week to change a secret everywhere. */
  max_key_overlap_seconds: 7 * 24 * 3600,
  /** Of what was before and of what is after, each: enough for any rule, and for a job without its payload. */
  max_audit_bytes: 8 * 1024,
} as const;

export const defaults = {
  queue: 'default',
  priority: 5,
  max_retries: 3,
  units: 1,
  fair_share: 100,
  timeout_ms: 3600 * 1000,
  /** EX_USAGE of sysexits.h: the same arguments will be wrong again. */
  fatal_exit_codes: [64],
  page: 50,
  search_days: 7,
  breaker: { min_attempts: 20, window_ms: 60_000, cool_down_ms: 30_000 },
  backoff: { base_ms: 1000, factor: 2, max_ms: 10 * 60 * 1000, jitter: 0.2 },
} as const;

// Everything that is measured, in the order of the table. A measure is one value:
//   name        for --only
//   rows        lines of the table: { key, title, unit, better, must, aim }; goals are { ratio, least, most, text }
//   peers       who else takes part; quickPeers: only the strongest here, for --quick
//   byName      only when asked for with --only; notQuick: with --quick only then
//   statements  it asks what statements take; PostgreSQL then counts them all
//   measure(bench, contestant) → { values: { key: number }, detail }
import { bulk } from './bulk.mjs';
import { dashboards } from './dashboards.mjs';
import { drain } from './drain.mjs';
import { due } from './due.mjs';
import { flow } from './flow.mjs';
import { future } from './future.mjs';
import { latency } from './latency.mjs';
import { lateness } from './lateness.mjs';
import { lifecycle } from './lifecycle.mjs';
import { logs } from './logs.mjs';
import { logsBeside } from './logs_beside.mjs';
import { memory } from './memory.mjs';
import { pages } from './pages.mjs';
import { schedules } from './schedules.mjs';
import { snapshot } from './snapshot.mjs';
import { steps } from './steps.mjs';
import { submit } from './submit.mjs';
import { telemetry } from './telemetry.mjs';

export const measures = [
  submit,
  bulk,
  drain,
  lifecycle,
  latency,
  lateness,
  due,
  future,
  memory,
  snapshot,
  schedules,
  flow,
  steps,
  logs,
  logsBeside,
  pages,
  dashboards,
  telemetry,
];

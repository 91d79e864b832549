// For @punctual/testing only, which plays runs with the very code of a worker; not for applications, and it may change at any
// time.
export { ended } from './wait.ts';
export { ActiveRun, type ActiveRunDeps } from './worker/active-run.ts';
export type { Report } from './worker/messages.ts';
export { Outbox } from './worker/outbox.ts';
export { plainSuccess, successText } from './worker/outcome.ts';
export type { RunClock } from './worker/run-clock.ts';

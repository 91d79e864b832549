// What tests of applications import: Punctual in a process, in a time that the test moves.
export type { TestClient } from './client.ts';
export type { Duration, TestClock } from './clock.ts';
export { type PlayedRun, TestScheduler, type TestSchedulerOptions } from './scheduler.ts';
export { NotPlayedError } from './submit.ts';

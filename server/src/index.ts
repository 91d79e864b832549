// What the CLI and the tests use of the server.
export { type Config, ConfigError, describeConfig, readConfig } from './config.ts';
export { type RunningServer, type ServerOptions, startServer } from './main.ts';
export type { Finding } from './rules/diagnose.ts';
export { StartError } from './start_error.ts';
export { examine } from './upkeep/examine.ts';
export { makeKey } from './upkeep/make_key.ts';
export { migrate } from './upkeep/migrate.ts';
export type { PruneStep } from './upkeep/prune.ts';
export { pruneDatabase } from './upkeep/prune_database.ts';
export { type KeyUse, type RotateStep, rotateDatabase } from './upkeep/rotate.ts';
export { version } from './version.ts';

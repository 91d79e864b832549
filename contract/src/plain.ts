// The contract without its schemas, for programs that only call: the SDK, and with it every worker. The library of schemas
// takes a third of a second to load and twenty megabytes in each thread. Types come from index.ts as everywhere.

import type { Access } from './access.ts';
import type { routes as Routes } from './index.ts';
import { doors as generated, paths } from './paths.ts';

export { roleMay } from './access.ts';
export * from './depth.ts';
export * from './errors.ts';
export * from './limits.ts';
export * from './media.ts';
export { fillPath } from './route.ts';
export * from './secrets.ts';
export * from './traceparent.ts';

/** Every route, as far as a caller needs it: method and path. */
export const routes = paths as unknown as typeof Routes;

/** Who may call each route, for programs that offer only what their caller may do. */
export const doors: Readonly<Record<keyof typeof paths, Access>> = generated;
export type Operation = keyof typeof paths;

/** Types, queues, users and tags: see Label in shapes.ts. */
export { labelPattern } from './label.ts';

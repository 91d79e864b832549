// The service itself: is it alive, is it ready, what is it. Schemas and routes.
import { type Static, Type } from 'typebox';
import { route } from './route.ts';

export const Health = Type.Object({ status: Type.Literal('ok') });
export const Ready = Type.Object({
  status: Type.Literal('ready'),
  server_id: Type.String(),
  version: Type.String(),
  database: Type.String({ description: 'The version of PostgreSQL' }),
});
export type Ready = Static<typeof Ready>;

export const serviceRoutes = {
  getHealth: route({
    method: 'GET',
    path: '/healthz',
    operation: 'getHealth',
    access: 'open',
    tag: 'service',
    summary: 'The process is alive',
    success: 200,
    response: Health,
    errors: [],
  }),
  getReady: route({
    method: 'GET',
    path: '/readyz',
    operation: 'getReady',
    access: 'open',
    tag: 'service',
    summary: 'The server can take work: its database answers',
    success: 200,
    response: Ready,
    errors: ['unavailable'],
  }),
} as const;

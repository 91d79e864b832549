// The service itself: is it alive, is it ready, what is it. Schemas and routes.
import type { Static } from 'typebox';
import { route } from './route.ts';
import { Type } from './type.ts';

export const Health = Type.Object({ status: Type.Literal('ok') });
export const Ready = Type.Object({
  status: Type.Literal('ready'),
  server_id: Type.String(),
  version: Type.String(),
  database: Type.String({ description: 'The version of PostgreSQL' }),
});
export type Ready = Static<typeof Ready>;

export const Setting = Type.Object(
  {
    key: Type.String(),
    env: Type.String({ description: 'The variable of the environment that sets it' }),
    value: Type.String({ description: 'As text; empty when it is not set. Secrets are hidden' }),
    is_default: Type.Boolean(),
    meaning: Type.String(),
  },
  { description: 'One setting of a server' },
);
export type Setting = Static<typeof Setting>;

export const SettingList = Type.Object({ server_id: Type.String(), settings: Type.Array(Setting) });
export type SettingList = Static<typeof SettingList>;

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
  getSettings: route({
    method: 'GET',
    path: '/settings',
    operation: 'getSettings',
    access: { role: 'admin', rows: 'all' },
    tag: 'service',
    summary: 'How the server that answers is set up, as `punctual config` prints it',
    success: 200,
    response: SettingList,
    errors: [],
  }),
} as const;

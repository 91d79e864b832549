// How the dashboard is built. The server serves dist/ under a policy that allows nothing inline; paths are relative, so
// that it also works behind a proxy with a prefix.
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const server = 'http://127.0.0.1:7600';
const api = [
  ...[
    '/alerts',
    '/artifacts',
    '/audit',
    '/breakers',
    '/calendars',
    '/dead-letters',
    '/docs',
    '/events',
    '/forecast',
    '/gates',
    '/jobs',
  ],
  ...[
    '/keys',
    '/limits',
    '/logs',
    '/operations',
    '/queues',
    '/retention',
    '/runs',
    '/schedules',
    '/session',
    '/settings',
  ],
  ...['/stats', '/workers', '/workflows'],
];

export default defineConfig({
  plugins: [react()],
  base: './',
  build: { outDir: 'dist', emptyOutDir: true, modulePreload: { polyfill: false }, assetsInlineLimit: 0 },
  // `vite` while working on the dashboard: the API comes from a server that runs beside it.
  server: {
    proxy: Object.fromEntries(api.map((path) => [path, server])),
  },
});

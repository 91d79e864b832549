// The calls for looking after things: dead letters, operations, log search, calendars, forecast, retention, settings.
import type {
  Calendar,
  CalendarJobs,
  DeadLetter,
  DeadLetterGroups,
  DeadLetterPage,
  GateKind,
  LogSearchPage,
  Minute,
  Operation,
  OperationPage,
  PutCalendar,
  RetentionPolicy,
  RetentionRule,
  SetRetention,
  SettingList,
} from '@punctual/contract';
import { at, get, type Query, send } from './request.ts';

export const listDeadLetters = (query: Query, signal: AbortSignal) =>
  get<DeadLetterPage>('dead-letters', signal, query);
export const listDeadLetterGroups = (query: Query, signal: AbortSignal) =>
  get<DeadLetterGroups>('dead-letters/groups', signal, query);
export const getDeadLetter = (runId: string, signal: AbortSignal) => get<DeadLetter>(at('dead-letters', runId), signal);
export const redriveDeadLetter = (runId: string) =>
  send<{ redriven_run_id: string }>('POST', at('dead-letters', runId, 'redrive'));
export const discardDeadLetter = (runId: string) => send<{ run_id: string }>('DELETE', at('dead-letters', runId));

export const listOperations = (query: Query, signal: AbortSignal) => get<OperationPage>('operations', signal, query);
export const getOperation = (id: string, signal: AbortSignal) => get<Operation>(at('operations', id), signal);
export const cancelOperation = (id: string) => send<Operation>('POST', at('operations', id, 'cancel'));

export const searchLogs = (query: Query, signal: AbortSignal) => get<LogSearchPage>('logs/search', signal, query);

export const getCalendar = (name: string, signal: AbortSignal) => get<Calendar>(at('calendars', name), signal);
export const listCalendarJobs = (name: string, signal: AbortSignal) =>
  get<CalendarJobs>(at('calendars', name, 'jobs'), signal);
export const putCalendar = (name: string, body: PutCalendar) => send<Calendar>('PUT', at('calendars', name), body);
export const deleteCalendar = (name: string) => send<{ name: string }>('DELETE', at('calendars', name));

export const getForecastMinute = (query: Query, signal: AbortSignal) => get<Minute>('forecast/minute', signal, query);

export const listRetention = (signal: AbortSignal) =>
  get<{ installation: RetentionPolicy; rules: RetentionRule[] }>('retention', signal);
export const setRetention = (kind: GateKind, name: string, body: SetRetention) =>
  send<RetentionRule>('PUT', at('retention', kind, name), body);
export const deleteRetention = (kind: GateKind, name: string) =>
  send<{ name: string }>('DELETE', at('retention', kind, name));
export const getSettings = (signal: AbortSignal) => get<SettingList>('settings', signal);

// The calls about schedules and calendars, as `client.schedules` and `client.calendars`.
import type { PreviewRequest, PutCalendar } from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';

export function scheduleCalls(call: Call) {
  return {
    /** The next times of a schedule; nothing is created. */
    preview: (body: PreviewRequest) => call(routes.previewSchedule, { body }),
  };
}

export function calendarCalls(call: Call) {
  return {
    list: () => call(routes.listCalendars, {}),
    get: (name: string) => call(routes.getCalendar, { params: { name } }),
    /** The jobs whose schedules use it. */
    jobs: (name: string) => call(routes.listCalendarJobs, { params: { name } }),
    /** Creates or replaces it; schedules that use it follow from now on. */
    put: (name: string, body: PutCalendar) => call(routes.putCalendar, { params: { name }, body }),
    delete: (name: string) => call(routes.deleteCalendar, { params: { name } }),
  };
}

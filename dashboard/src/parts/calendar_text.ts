// Windows of a calendar as lines that people read and write, such as `12-25, 01-01`, `SAT-SUN`, `MON-FRI 09:00-17:00`: one
// window a line, its parts in any order. Pure.
import type { CalendarWindow } from '@punctual/contract';

export function windowWords({ dates = [], days = [], hours = [] }: CalendarWindow): string {
  return [...dates, ...days, ...hours].join(' ');
}

export const windowsText = (windows: readonly CalendarWindow[]): string => windows.map(windowWords).join('\n');

const hoursShape = /^\d{1,2}:\d{2}/;
const datesShape = /^\d{2,4}-\d{2}/;

/** What it is, its shape tells; whether it is right, the server does. */
export function readWindows(text: string): CalendarWindow[] {
  return text
    .split('\n')
    .map((line) => line.split(/[\s,]+/).filter((word) => word !== ''))
    .filter((words) => words.length > 0)
    .map((words) => {
      const hours = words.filter((word) => hoursShape.test(word));
      const dates = words.filter((word) => !hoursShape.test(word) && datesShape.test(word));
      const days = words.filter((word) => !hoursShape.test(word) && !datesShape.test(word));
      return {
        ...(dates.length > 0 ? { dates } : {}),
        ...(days.length > 0 ? { days } : {}),
        ...(hours.length > 0 ? { hours } : {}),
      };
    });
}

// Cron expressions as people build them: every few minutes, daily, weekly, monthly. What fits none of these is left as it
// was written. Pure.

export type Frequency = 'minutes' | 'hourly' | 'daily' | 'weekly' | 'monthly' | 'custom';

export interface CronParts {
  frequency: Frequency;
  /** Every so many minutes. */
  every: string;
  /** `HH:MM`. */
  time: string;
  minute: string;
  /** MON … SUN. */
  days: string[];
  /** 1 … 31, or L for the last. */
  day: string;
}

export const weekdays = ['MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT', 'SUN'];
const usual: CronParts = { frequency: 'daily', every: '15', time: '09:00', minute: '0', days: ['MON'], day: '1' };

export function toCron({ frequency, every, time, minute, days, day }: CronParts): string | undefined {
  const [hours = '0', minutes = '0'] = time.split(':').map((part) => String(Number(part)));
  if (frequency === 'minutes') return `*/${every} * * * *`;
  if (frequency === 'hourly') return `${minute} * * * *`;
  if (frequency === 'daily') return `${minutes} ${hours} * * *`;
  if (frequency === 'weekly') return `${minutes} ${hours} * * ${joinDays(days)}`;
  if (frequency === 'monthly') return `${minutes} ${hours} ${day} * *`;
  return undefined;
}

export function fromCron(expression: string): CronParts {
  const fields = expression.trim().split(/\s+/);
  const custom: CronParts = { ...usual, frequency: 'custom' };
  if (fields.length !== 5) return custom;
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = fields;
  if (month !== '*') return custom;
  const isPlain = (text: string) => /^\d{1,2}$/.test(text);
  const every = /^\*\/(\d+)$/.exec(minute)?.[1];
  const daily = day === '*' && weekday === '*';
  if (every !== undefined && hour === '*' && daily) return { ...usual, frequency: 'minutes', every };
  if (isPlain(minute) && hour === '*' && daily) return { ...usual, frequency: 'hourly', minute };
  if (!isPlain(minute) || !isPlain(hour)) return custom;
  const time = `${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`;
  if (daily) return { ...usual, frequency: 'daily', time };
  const days = readDays(weekday);
  if (day === '*' && days !== undefined) return { ...usual, frequency: 'weekly', time, days };
  if (weekday === '*' && /^(\d{1,2}|L)$/.test(day)) return { ...usual, frequency: 'monthly', time, day };
  return custom;
}

function joinDays(days: readonly string[]): string {
  const sorted = weekdays.filter((day) => days.includes(day));
  if (sorted.join() === 'MON,TUE,WED,THU,FRI') return 'MON-FRI';
  return sorted.length === 0 ? '*' : sorted.join(',');
}

function readDays(text: string): string[] | undefined {
  if (text === 'MON-FRI') return weekdays.slice(0, 5);
  const days = text.toUpperCase().split(',');
  return days.every((day) => weekdays.includes(day)) ? days : undefined;
}

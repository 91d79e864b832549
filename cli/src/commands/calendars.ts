// `punctual calendars …`: list, show, put and delete the named days and hours that schedules share.
import { PutCalendar } from '@punctual/contract';
import type { Command } from 'commander';
import { calendarRequest, windowOptions } from '../calendar_flags.ts';
import { eachId } from '../each.ts';
import { flagsFrom } from '../flags.ts';
import { oneLine } from '../output.ts';
import { printPage } from '../pages.ts';
import { type ClientSession, remotely } from '../session.ts';
import { calendarFields, calendarHead, calendarRow } from '../show_schedule.ts';
import { now, showTime } from '../time.ts';

const zoneFlags = flagsFrom(PutCalendar.properties, ['timezone'], {
  words: { timezone: 'The time zone of its days and hours' },
});

export function addCalendars(calendars: Command): void {
  calendars.command('list').description('List the calendars').action(remotely(list));
  calendars
    .command('show')
    .description('Show a calendar')
    .argument('<name>', 'The name of the calendar')
    .action(remotely(show));
  calendars
    .command('jobs')
    .description('List the jobs whose schedules use a calendar')
    .argument('<name>', 'The name of the calendar')
    .action(remotely(listJobs));
  addPut(calendars.command('put'));
  calendars
    .command('delete')
    .description('Delete calendars that no job uses')
    .argument('<name...>', 'One or more names')
    .action(remotely(remove));
}

function addPut(put: Command): void {
  put
    .description('Create or replace a calendar; the jobs that use it follow from now on')
    .argument('<name>', 'The name of the calendar')
    .option('--file <file>', 'The whole calendar from a JSON file; - reads standard input');
  for (const option of [...zoneFlags.map((flag) => flag.option), ...windowOptions]) put.addOption(option);
  put
    .addHelpText(
      'after',
      `
What is excluded is excluded by each flag alone; what is included must fit all of them.

Examples:
  punctual calendars put holidays --exclude-dates 12-25,12-26,01-01 --tz Europe/Paris
  punctual calendars put office --include-days MON-FRI --include-hours 09:00-17:00 --tz Europe/Paris
  punctual calendars put plant --file plant.json`,
    )
    .action(remotely(replace));
}

async function list({ client, output }: ClientSession): Promise<void> {
  const page = await client.calendars.list();
  if (output.asJson) return output.json(page);
  const print = { output, head: calendarHead, row: calendarRow, none: 'there is no calendar', more: '' };
  printPage({ next_cursor: null }, page.calendars, print);
}

async function show({ client, output }: ClientSession, name: string): Promise<void> {
  const calendar = await client.calendars.get(name);
  if (output.asJson) return output.json(calendar);
  output.fields(calendarFields(calendar, now()));
}

async function listJobs({ client, output }: ClientSession, name: string): Promise<void> {
  const page = await client.calendars.jobs(name);
  if (output.asJson) return output.json(page);
  printPage({ next_cursor: null }, page.jobs, {
    output,
    head: ['JOB', 'NAME', 'NEXT'],
    row: (job, _paint, at) => [job.job_id, oneLine(job.name, 60), showTime(job.next_time, at)],
    none: 'no job uses it',
    more: '',
  });
}

async function replace({ client, output }: ClientSession, name: string, given: Record<string, unknown>): Promise<void> {
  const calendar = await client.calendars.put(name, await calendarRequest(given));
  if (output.asJson) return output.json(calendar);
  output.fields(calendarFields(calendar, now()));
}

async function remove(session: ClientSession, names: string[]): Promise<number> {
  return await eachId(session, names, {
    noun: 'calendar',
    act: (name) => session.client.calendars.delete(name),
    tell: (_, name) => `calendar ${name} is deleted`,
  });
}

// What may come next on a command line.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildProgram } from '../program.ts';
import { wantedBy } from './candidates.ts';

const program = await buildProgram('all');
const values = (line: string): string[] => {
  const { begun, candidates, prefix } = wantedBy(program, line.split(' '));
  return candidates.filter(({ value }) => value.startsWith(begun)).map(({ value }) => `${prefix}${value}`);
};
const known = (line: string) => wantedBy(program, line.split(' ')).known;

test('commands, also below others, and none that is hidden', () => {
  assert.deepEqual(values('dead'), ['dead-letters']);
  assert.deepEqual(values('jobs c'), ['create', 'cancel']);
  assert.deepEqual(values('jobs create x'), []);
  assert.deepEqual(values('completion '), ['bash', 'zsh', 'fish']);
  assert.deepEqual(values('--json queues l'), ['list']);
  assert.deepEqual(values('--url http://x queues l'), ['list']);
});

test('options of the command and of the program', () => {
  assert.deepEqual(values('jobs list --sta'), ['--status']);
  assert.ok(values('jobs list --').includes('--json'));
  assert.ok(values('jobs list --').includes('--watch'));
  assert.ok(!values('jobs cancel --').includes('--watch'));
});

test('choices, after the option and in one word with it', () => {
  assert.ok(values('runs list --status ').includes('FAILED'));
  assert.deepEqual(values('runs list --status F'), ['FAILED']);
  assert.deepEqual(values('runs list --status=F'), ['--status=FAILED']);
});

test('things that the server knows', () => {
  assert.equal(known('jobs show '), 'jobs');
  assert.equal(known('runs cancel a b '), 'runs', 'also for the third of many');
  assert.equal(known('runs show a '), null, 'no argument is left');
  assert.equal(known('jobs list --queue '), 'queues');
  assert.equal(known('alerts rule '), 'rules');
  assert.equal(known('workflows approve '), 'workflows');
  assert.equal(known('workflows approve x '), null, 'the name of a step');
});

test('behind -- nothing is an option or a command', () => {
  assert.deepEqual(values('jobs create -- backup --'), []);
});

test('every table of kinds names options and arguments that exist', () => {
  const all: string[] = [];
  const walk = (command: typeof program): void => {
    for (const option of command.options) all.push(option.long ?? '');
    for (const argument of command.registeredArguments) {
      all.push(`${command.name()} ${argument.name()}`, `${command.parent?.name() ?? ''} ${argument.name()}`);
    }
    command.commands.forEach(walk);
  };
  walk(program);
  for (const name of ['--queue', '--job', '--run', '--worker', '--calendar', '--channel', '--rule', '--type'])
    assert.ok(all.includes(name), name);
  for (const name of ['jobs id', 'runs id', 'dead-letters run-id', 'queues name', 'workers worker-id', 'keys key_id'])
    assert.ok(all.includes(name), name);
});

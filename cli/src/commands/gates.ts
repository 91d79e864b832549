// `punctual gates …`: see and move the switches before types and queues, and the breakers that move them by themselves.
import { type GateState, SetBreaker, SetGate } from '@punctual/contract';
import { type Command, Option } from 'commander';
import { UsageError } from '../failure.ts';
import { flagsFrom, valuesOf } from '../flags.ts';
import { printPage } from '../pages.ts';
import { type ClientSession, remotely } from '../session.ts';
import { breakerHead, breakerRow, gateHead, gateRow } from '../show_flow.ts';

const noteFlags = flagsFrom(SetGate.properties, ['note', 'author']);
const breakerFlags = flagsFrom(SetBreaker.properties, ['error_rate', 'min_attempts', 'window_ms', 'cool_down_ms']);

const moves = {
  open: 'Let runs start',
  hold: 'Let due runs wait, in their order',
  drop: 'End due runs as DROPPED without starting them',
} as const;

export function addGates(gates: Command): void {
  gates.command('list').description('List the gates that were ever closed').action(remotely(list));
  for (const [state, words] of Object.entries(moves) as [GateState, string][]) {
    const command = gates
      .command(state)
      .description(words)
      .addOption(new Option('--type <type>', 'The type it stands before'))
      .addOption(new Option('--queue <queue>', 'The queue it stands before'));
    for (const { option } of noteFlags) command.addOption(option);
    command.action(remotely((session, given: Record<string, unknown>) => move(session, state, given)));
  }
  gates.command('breakers').description('List the circuit breakers').action(remotely(listBreakers));
  const breaker = gates
    .command('breaker')
    .description('Hold the gate of a type by itself when too many of its attempts fail')
    .argument('<type>', 'The type');
  for (const { option } of breakerFlags) breaker.addOption(option);
  breaker
    .option('--remove', 'Remove the breaker; a gate that it holds is opened')
    .addHelpText('after', '\nExample:\n  punctual gates breaker send-mail --error-rate 0.5 --window 1m --cool-down 30s')
    .action(remotely(setBreaker));
}

async function list({ client, output }: ClientSession): Promise<void> {
  const page = await client.gates.list();
  if (output.asJson) return output.json(page);
  const print = { output, head: gateHead, row: gateRow, none: 'every gate is open', more: '' };
  printPage({ next_cursor: null }, page.gates, print);
}

async function move(
  { client, output }: ClientSession,
  state: GateState,
  given: Record<string, unknown>,
): Promise<void> {
  const { type, queue } = given as { type?: string; queue?: string };
  if ((type === undefined) === (queue === undefined))
    throw new UsageError('Give either --type or --queue: the gate stands before one of them.');
  const note = valuesOf(noteFlags, given);
  const gate =
    type === undefined
      ? await client.gates.set('queue', queue as string, { state, ...note })
      : await client.gates.set('type', type, { state, ...note });
  if (output.asJson) return output.json(gate);
  output.line(`the gate of ${gate.kind} ${gate.name} is ${gate.state === 'drop' ? 'dropping' : gate.state}`);
}

async function listBreakers({ client, output }: ClientSession): Promise<void> {
  const page = await client.breakers.list();
  if (output.asJson) return output.json(page);
  const print = { output, head: breakerHead, row: breakerRow, none: 'no type has a breaker', more: '' };
  printPage({ next_cursor: null }, page.breakers, print);
}

async function setBreaker(
  { client, output }: ClientSession,
  type: string,
  given: Record<string, unknown>,
): Promise<void> {
  if (given.remove === true) {
    const removed = await client.breakers.delete(type);
    return output.asJson ? output.json(removed) : output.line(`type ${type} has no breaker any more`);
  }
  const body = valuesOf(breakerFlags, given) as SetBreaker;
  if (body.error_rate === undefined) throw new UsageError('Give --error-rate, such as 0.5.');
  const breaker = await client.breakers.set(type, body);
  if (output.asJson) return output.json(breaker);
  printPage({ next_cursor: null }, [breaker], { output, head: breakerHead, row: breakerRow, none: '', more: '' });
}

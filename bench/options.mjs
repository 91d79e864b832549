// The words after `npm run bench --`, checked. run.mjs reads them once; measures take what they need from the result.
import { parseArgs } from 'node:util';

export class UsageError extends Error {}

export const usage = `Usage: npm run bench -- [options]
  --quick           one short round, with the strongest peer of each measure only; under a minute
  --only a,b        only these measures: submit, bulk, drain, lifecycle, latency, lateness, due, future, memory, and
                    those that are left out unless named: schedules, flow, logs, pages,
                    dashboards, and snapshot, which takes 3.5 minutes a
                    round and contestant
  --rounds N        rounds of each measure (3 unless given; 1 with --quick)
  --no-peers        only Punctual
  --own-node        Punctual on the Node that runs the bench, also where the peers need a newer one
  --json FILE       also write everything measured to FILE
  --readme          also put the tables into bench/README.md`;

export function readOptions(args, measureNames) {
  const { values } = parse(args);
  const only = values.only?.split(',').filter((name) => name !== '') ?? null;
  for (const name of only ?? []) {
    if (!measureNames.includes(name)) {
      throw new UsageError(`There is no measure ${JSON.stringify(name)}; there are ${measureNames.join(', ')}.`);
    }
  }
  const rounds = values.rounds === undefined ? (values.quick ? 1 : 3) : Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1 || rounds > 99) {
    throw new UsageError(`--rounds is ${JSON.stringify(values.rounds)}; it must be a whole number from 1 to 99.`);
  }
  return {
    quick: values.quick,
    only,
    rounds,
    peers: !values['no-peers'],
    ownNode: values['own-node'],
    json: values.json ?? null,
    readme: values.readme,
    help: values.help,
  };
}

function parse(args) {
  try {
    return parseArgs({
      args,
      options: {
        quick: { type: 'boolean', default: false },
        only: { type: 'string' },
        rounds: { type: 'string' },
        'no-peers': { type: 'boolean', default: false },
        'own-node': { type: 'boolean', default: false },
        json: { type: 'string' },
        readme: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    throw new UsageError(error.message);
  }
}

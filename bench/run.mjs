// The benchmark: Punctual and its peers, one after the other, on this machine. `npm run bench -- --help` lists options.
// Progress goes to standard error, the table to standard output. Ends with every process it started stopped.
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { stopAll } from './children.mjs';
import { contestants } from './contestants/index.mjs';
import { measures } from './measures/index.mjs';
import { readOptions, UsageError, usage } from './options.mjs';
import { findPeers } from './peers.mjs';
import { machineSeconds } from './procfs.mjs';
import { writeProfile } from './profile.mjs';
import { writeReadme } from './readme.mjs';
import { describeMachine, openStage } from './stage.mjs';
import { costTable, summarize, tableOf } from './table.mjs';

let closing = async () => {};
let stopping = false;
const begun = performance.now();
const say = (text) =>
  process.stderr.write(`bench ${((performance.now() - begun) / 1000).toFixed(1).padStart(6)} s  ${text}\n`);

async function main() {
  const options = readOptions(
    process.argv.slice(2),
    measures.map(({ name }) => name),
  );
  if (options.help) return console.log(usage);
  const chosen = measures.filter(
    ({ name, byName, notQuick }) => options.only?.includes(name) ?? !(byName || (notQuick && options.quick)),
  );
  const peers = options.peers ? await findPeers({ say }) : { present: [], node: null };
  // One Node for everybody, unless asked otherwise: what is compared is not the age of theirs.
  const node = options.ownNode ? process.execPath : (peers.node ?? process.execPath);
  const profile = process.env.BENCH_PROF === undefined ? null : path.resolve(process.env.BENCH_PROF);
  if (profile !== null) mkdirSync(path.join(profile, 'worker-thread'), { recursive: true });
  const stage = await openStage({
    say,
    profile,
    statements: chosen.some((measure) => measure.statements),
    seasoned: profile === null && !options.quick,
  });
  closing = () => stage.close();
  const bench = {
    stage,
    say,
    profile,
    node,
    peerNode: peers.node,
    quick: options.quick,
    times: options.quick ? quickTimes : fullTimes,
  };
  const machine = describeMachine(node);
  const disturbance = watchDisturbance(stage);
  if (machine.load_average > 0.5)
    say(`others use this machine (load average ${machine.load_average}): figures will be low`);
  const everybody = [contestants.punctual, ...peers.present];
  const results = {};
  for (const measure of chosen) {
    results[measure.name] = await takeRounds(bench, measure, everybody, options);
    // Kept at once: a run that is broken off later has not been in vain.
    if (options.json !== null)
      writeFileSync(options.json, `${JSON.stringify({ machine, options, results }, null, 2)}\n`);
  }
  if (profile !== null) await writeProfile(bench);
  report({ options, chosen, results, everybody, machine: { ...machine, ...disturbance() } });
}

/** How much of the machine went to others while we measured: what the figures are worth depends on it. */
function watchDisturbance(stage) {
  const begin = { at: performance.now(), own: stage.ownCpuSeconds(), ...machineSeconds() };
  return () => {
    const { used, stolen } = machineSeconds();
    const seconds = ((performance.now() - begin.at) / 1000) * availableParallelism();
    const percent = (value) => Math.max(0, Math.round((100 * value) / seconds));
    const others = used - begin.used - (stage.ownCpuSeconds() - begin.own);
    return { others_percent: percent(others), stolen_percent: percent(stolen - begin.stolen) };
  };
}

const fullTimes = (seconds, warmSeconds) => ({ seconds, warmSeconds });
const quickTimes = (seconds, warmSeconds) => ({ seconds: Math.ceil(seconds / 4), warmSeconds: warmSeconds / 4 });

/** All rounds of a measure; contestants take turns, so that a slow minute of the machine hits everybody. */
async function takeRounds(bench, measure, everybody, { rounds, quick }) {
  const whose = quick ? measure.quickPeers : measure.peers;
  const taking = everybody.filter(({ ours, name }) => ours || whose.includes(name));
  const results = Object.fromEntries(taking.map(({ name }) => [name, []]));
  for (let round = 1; round <= rounds; round++) {
    bench.isLastRound = round === rounds;
    for (const contestant of taking) {
      const result = await takeRound(bench, measure, contestant);
      results[contestant.name].push(result);
      say(`${measure.name} ${round}/${rounds} ${contestant.title}: ${words(result)}`);
    }
  }
  return results;
}

/** Who fails is said and left out of this round; if we fail, so does the bench in the end. */
async function takeRound(bench, measure, contestant) {
  try {
    return await measure.measure(bench, contestant);
  } catch (error) {
    if (stopping) throw error;
    if (!contestant.ours) return { error: error.message };
    process.exitCode = 1;
    const complaints =
      bench.lastServer
        ?.output()
        .split('\n')
        .filter((line) => /"level":[56]0/.test(line)) ?? [];
    return { error: [error.stack, ...complaints.slice(-3)].join('\n') };
  }
}

function words({ values, error }) {
  if (error !== undefined) return `failed: ${error}`;
  // What could not be measured here is null.
  return Object.entries(values)
    .filter(([, value]) => value !== null)
    .map(([key, value]) => `${key} ${value < 100 ? value.toFixed(2) : Math.round(value).toLocaleString('en')}`)
    .join(' · ');
}

function report({ options, chosen, results, everybody, machine }) {
  const summaries = chosen.flatMap(({ name, rows }) => rows.map((row) => summarize(row, results[name], options)));
  const { rounds, quick, json, only, readme } = options;
  const { date, cores, processor, memory_gb, system, node, others_percent, stolen_percent } = machine;
  const facts = [
    date,
    `${cores} cores (${processor}), ${memory_gb} GB`,
    system,
    `Node ${node}`,
    rounds === 1 ? 'one round' : `medians of ${rounds} rounds`,
    `meanwhile others used ${others_percent} % of the machine, its host took ${stolen_percent} %`,
    ...(quick ? ['quick'] : []),
  ];
  const text = [facts.join(' · '), tableOf(summaries, everybody), costTable(results, everybody)].join('\n\n').trimEnd();
  console.log(`\n${text}\n`);
  if (json !== null) writeFileSync(json, `${JSON.stringify({ machine, options, summaries, results }, null, 2)}\n`);
  if (readme) writeReadme(only?.includes('snapshot') ? 'snapshot' : 'all', `\`${commandOf()}\`\n\n${text}`);
}

const commandOf = () =>
  ['npm run bench', ...(process.argv.length > 2 ? ['--', ...process.argv.slice(2)] : [])].join(' ');

async function end(code) {
  if (stopping) return;
  stopping = true;
  // Whatever is measured ends first: it holds connections to the stage.
  await stopAll();
  await closing().catch((error) => say(`could not clear away: ${error.message}`));
  process.exit(code);
}
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
])
  process.once(signal, () => {
    say(`stopped by ${signal}`);
    void end(code);
  });

try {
  await main();
  await end(process.exitCode ?? 0);
} catch (error) {
  if (!stopping) say(error instanceof UsageError ? `${error.message}\n\n${usage}` : (error.stack ?? String(error)));
  await end(error instanceof UsageError ? 2 : 1);
}

// The life cycle beside a flood of log lines: how much of its speed is left while 50,000 lines a second are stored and made
// searchable. The lines of each part are made before it begins, since whoever logs has machines of their own. Only ours.
import { Client } from '@punctual/sdk';
import { sleep, tick } from '../clock.mjs';
import { openHouse } from '../house.mjs';
import { LogSender, linesACall } from '../log_sender.mjs';
import { median } from '../numbers.mjs';
import { cpuSeconds } from '../procfs.mjs';
import { observe, startFeeding } from './lifecycle.mjs';

const perSecond = 50_000;
/** Timers are late by a little. */
const pace = perSecond * 1.005;
const parts = 3;
const senders = 4;
const row = (key, title, unit, must) => ({ key, title, unit, better: 'higher', must, aim: null });

export const logsBeside = {
  name: 'logs_beside',
  byName: true,
  rows: [
    row('alone', 'life cycle without log lines', '/s', null),
    row('beside', `life cycle beside ${perSecond.toLocaleString('en')} log lines a second`, '/s', null),
    row('share', 'the second as a share of the first', '×', { least: 0.8, text: '≥ 0.8' }),
    row('stored', 'log lines stored meanwhile', '/s', { least: perSecond, text: '≥ 50,000' }),
  ],
  peers: [],
  quickPeers: [],

  async measure(bench, contestant) {
    const house = await openHouse(bench, contestant);
    const client = new Client({ url: house.place.url, timeoutMs: 120_000 });
    const workers = [];
    try {
      const { seconds } = bench.times(10, 3);
      const lines = perSecond * seconds * (parts + 1);
      for (let i = 0; i < senders; i++) workers.push(new LogSender(house.place.url, `sender-${i}`, lines / senders));
      for (const worker of workers) await worker.open(client);
      await startFeeding(house);
      await sleep(3000);
      // Both have run before.
      await flooded(house, workers, seconds / 3);
      const alone = [await observe(house, seconds)];
      const beside = [];
      for (let i = 0; i < parts; i++) {
        beside.push(await flooded(house, workers, seconds));
        alone.push(await observe(house, seconds));
      }
      // Each beside what was before and after it: the speed of the machine changes.
      const shares = beside.map(({ rate }, i) => (2 * rate) / (alone[i].rate + alone[i + 1].rate));
      const rates = (observed) => observed.map(({ rate }) => Math.round(rate));
      const detail = { shares, alone: rates(alone), beside: rates(beside), stored: beside.map(({ stored }) => stored) };
      bench.say(`beside log lines: ${JSON.stringify(detail)}, costs ${JSON.stringify(beside.at(-1).sender)}`);
      const values = {
        alone: median(rates(alone)),
        beside: median(rates(beside)),
        share: median(shares),
        stored: Math.min(...beside.map(({ stored }) => stored)),
      };
      return { values, detail };
    } finally {
      for (const worker of workers) worker.close();
      client.close();
      await house.close();
    }
  },
};

let line = 0;

/** The life cycle while lines come at an even rate. */
async function flooded(house, workers, seconds) {
  const calls = Math.ceil((pace * seconds) / linesACall);
  const bodies = Array.from({ length: calls }, (_, i) => {
    line += linesACall;
    return workers[i % senders].prepare(line);
  });
  // Making them is not what is measured.
  await sleep(1000);
  const before = cpuSeconds(process.pid);
  const from = tick();
  const observing = observe(house, seconds);
  const sending = workers.map(async (worker, first) => {
    for (let i = first; i < calls; i += senders) {
      await sleep(from + ((i * linesACall) / pace) * 1000 - tick());
      await worker.call({}, bodies[i]);
    }
  });
  await Promise.all(sending);
  const stored = (calls * linesACall) / ((tick() - from) / 1000);
  const sender = `${Math.round(((cpuSeconds(process.pid) - before) * 1e7) / (calls * linesACall)) / 10} µs a line at the sender`;
  return { ...(await observing), stored, sender };
}

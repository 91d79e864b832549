// Results for people: one table with the ratio and the goals, and below it what a job costs.
import { median } from './numbers.mjs';

/** The median of all rounds of each contestant, for one row. */
export function summarize(row, results, { quick }) {
  const medians = {};
  for (const [name, rounds] of Object.entries(results)) {
    const values = rounds.map((round) => round.values?.[row.key]).filter((value) => typeof value === 'number');
    if (values.length > 0) medians[name] = median(values);
  }
  const { punctual: ours, ...peers } = medians;
  const best = Object.values(peers).reduce(
    (a, b) => (row.better === 'higher' ? Math.max(a, b) : Math.min(a, b)),
    row.better === 'higher' ? -Infinity : Infinity,
  );
  const ratio = ours === undefined || !Number.isFinite(best) ? null : ours / best;
  return {
    key: row.key,
    title: (quick && row.quickTitle) || row.title,
    unit: row.unit,
    medians,
    ratio,
    must: judge(row.must, { ours, peers, ratio }),
    aim: judge(row.aim, { ours, peers, ratio }),
  };
}

/** yes, no, or unknown (null) when there is no goal or nobody to compare with. */
function judge(goal, { ours, peers, ratio }) {
  if (goal === null || goal === undefined) return null;
  if (ours === undefined) return { text: goal.text, reached: null };
  const against = goal.peer === undefined ? ratio : peers[goal.peer] === undefined ? null : ours / peers[goal.peer];
  const checks = new Set([
    goal.ratio === undefined ? true : against === null ? null : against >= goal.ratio,
    goal.least === undefined ? true : ours >= goal.least,
    goal.most === undefined ? true : ours <= goal.most,
  ]);
  const reached = checks.has(false) ? false : checks.has(null) ? null : true;
  return { text: goal.text, reached };
}

export function tableOf(summaries, contestants) {
  const head = ['measure', ...contestants.map(({ title }) => title), 'ours ÷ best peer', 'must', 'aim'];
  const lines = summaries.map((summary) => [
    `${summary.title}, ${summary.unit}`,
    ...contestants.map(({ name }) => show(summary.medians[name], summary.unit)),
    summary.ratio === null ? '–' : summary.ratio.toFixed(2),
    goalText(summary.must),
    goalText(summary.aim),
  ]);
  return layOut([head, ...lines]);
}

/** Bytes of write-ahead log and processor time of each part, for the measures that know them. */
export function costTable(results, contestants) {
  const lines = [];
  for (const [measure, byContestant] of Object.entries(results)) {
    for (const { name, title } of contestants) {
      const details = (byContestant[name] ?? []).map((round) => round.detail ?? {});
      for (const key of Object.keys(details[0] ?? {})) {
        const parts = details.map((detail) => detail[key]).filter((part) => part?.cpu_us !== undefined);
        if (parts.length === 0) continue;
        const of = (pick) => show(median(parts.map(pick).filter((value) => value !== null)), 'n');
        const { server, worker, store, load } = {
          server: of((p) => p.cpu_us.server),
          worker: of((p) => p.cpu_us.worker),
          store: of((p) => p.cpu_us.store),
          load: of((p) => p.cpu_us.load),
        };
        lines.push([
          key === measure ? measure : `${measure}: ${key}`,
          title,
          server,
          worker,
          store,
          load,
          of((p) => p.wal_bytes),
        ]);
      }
    }
  }
  if (lines.length === 0) return '';
  return layOut([['per job', 'of', 'server µs', 'worker µs', 'database µs', 'load µs', 'WAL bytes'], ...lines]);
}

function show(value, unit) {
  if (value === undefined || value === null) return '–';
  if (unit === 'ms') return value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString('en');
  if (unit === '×') return value.toFixed(2);
  return Math.round(value).toLocaleString('en');
}

function goalText(judged) {
  if (judged === null) return '';
  return judged.reached === null ? judged.text : `${judged.text} ${judged.reached ? '✔' : '✘'}`;
}

/** As Markdown with even columns: reads well in a terminal and in a README. */
function layOut(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  const line = (row) =>
    `| ${row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join(' | ')} |`;
  const rule = `|${widths.map((width, i) => (i === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`;
  return [line(rows[0]), rule, ...rows.slice(1).map(line)].join('\n');
}

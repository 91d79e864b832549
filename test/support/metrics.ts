// Metrics as a test reads them: those that a server offers, those that docs/metrics.md explains, those that a text names.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from './tree.ts';

export interface Scraped {
  /** Kind by name. */
  kinds: Map<string, string>;
  /** The value of a series, as `name{label="value"}`; labels in the order in which they are written. */
  value(series: string): number | undefined;
  text: string;
}

export async function scrape(url: string): Promise<Scraped> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const kinds = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', kind = '']) => [name, kind]));
  const values = new Map(
    text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  );
  return { kinds, text, value: (series) => values.get(series) };
}

export function documentedMetrics(): Set<string> {
  const text = readFileSync(path.join(root, 'docs/metrics.md'), 'utf8');
  return new Set([...text.matchAll(/^\| `(\w+)` \|/gm)].map(([, name = '']) => name));
}

/** Metrics that expressions of a text name; a series of a histogram counts as that histogram. */
export function namedMetrics(text: string, histograms: ReadonlySet<string>): Set<string> {
  const names = [...text.matchAll(/\b(?:punctual|nodejs|process)_[a-z0-9_]+\b/g)].map(([name]) => {
    const whole = name.replace(/_(bucket|sum|count)$/, '');
    return histograms.has(whole) ? whole : name;
  });
  return new Set(names);
}

// A histogram with one label that costs little to fill: many equal observations are one addition, and nothing is looked up by
// the names of labels. For what is observed for every run; metrics.ts registers it beside those of prom-client.
import type { Registry } from 'prom-client';

export interface FastHistogramOptions {
  name: string;
  help: string;
  label: string;
  /** Upper bounds in seconds, rising. */
  buckets: readonly number[];
}

interface Series {
  counts: number[];
  sum: number;
}

interface Sample {
  metricName: string;
  labels: Record<string, string | number>;
  value: number;
}

export class FastHistogram {
  readonly name: string;
  readonly help: string;
  readonly type = 'histogram';
  readonly labelNames: readonly string[];
  readonly #options: FastHistogramOptions;
  readonly #series = new Map<string, Series>();

  constructor(options: FastHistogramOptions, registry: Registry) {
    this.name = options.name;
    this.help = options.help;
    this.labelNames = [options.label];
    this.#options = options;
    // The registry asks no more of a metric than its name and `get`; its types name classes of its own.
    registry.registerMetric(this as never);
  }

  observe(label: string, seconds: number, times = 1): void {
    const { buckets } = this.#options;
    let series = this.#series.get(label);
    if (series === undefined) {
      series = { counts: Array.from({ length: buckets.length + 1 }, () => 0), sum: 0 };
      this.#series.set(label, series);
    }
    let place = 0;
    while (place < buckets.length && seconds > (buckets[place] as number)) place++;
    series.counts[place] = (series.counts[place] as number) + times;
    series.sum += seconds * times;
  }

  async get(): Promise<{ name: string; help: string; type: string; values: Sample[] }> {
    const { name, help, type } = this;
    const { label, buckets } = this.#options;
    const values = [...this.#series].flatMap(([of, { counts, sum }]) => {
      let count = 0;
      const upTo = [...buckets, '+Inf'].map((le, place): Sample => {
        count += counts[place] as number;
        return { metricName: `${name}_bucket`, labels: { le, [label]: of }, value: count };
      });
      const labels = { [label]: of };
      return [
        ...upTo,
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: count },
      ];
    });
    return { name, help, type, values };
  }
}

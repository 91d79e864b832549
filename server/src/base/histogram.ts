// A histogram that costs little to fill: whoever observes keeps the series of its labels, many equal observations are one
// addition, and nothing is looked up by the names of labels. For what is observed for every run or request; metrics.ts
// registers it beside those of prom-client.
import type { Registry } from 'prom-client';

export interface FastHistogramOptions {
  name: string;
  help: string;
  labels: readonly string[];
  /** Upper bounds in seconds, rising. */
  buckets: readonly number[];
}

interface Sample {
  metricName: string;
  labels: Record<string, string | number>;
  value: number;
}

/** What was observed under the same labels. */
export class Series {
  readonly labels: Record<string, string>;
  readonly #bounds: readonly number[];
  readonly counts: number[];
  sum = 0;

  constructor(labels: Record<string, string>, bounds: readonly number[]) {
    this.labels = labels;
    this.#bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(seconds: number, times = 1): void {
    let place = 0;
    while (place < this.#bounds.length && seconds > (this.#bounds[place] as number)) place++;
    this.counts[place] = (this.counts[place] as number) + times;
    this.sum += seconds * times;
  }
}

export class FastHistogram {
  readonly name: string;
  readonly help: string;
  readonly type = 'histogram';
  readonly labelNames: readonly string[];
  readonly #buckets: readonly number[];
  readonly #series: Series[] = [];

  constructor({ name, help, labels, buckets }: FastHistogramOptions, registry: Registry) {
    this.name = name;
    this.help = help;
    this.labelNames = labels;
    this.#buckets = buckets;
    // The registry asks no more of a metric than its name and `get`; its types name classes of its own.
    registry.registerMetric(this as never);
  }

  /** A series of its own for these values of its labels; made once for each. */
  open(...values: string[]): Series {
    const labels = Object.fromEntries(this.labelNames.map((label, i) => [label, values[i] ?? '']));
    const series = new Series(labels, this.#buckets);
    this.#series.push(series);
    return series;
  }

  async get(): Promise<{ name: string; help: string; type: string; values: Sample[] }> {
    const { name, help, type } = this;
    const values = this.#series.flatMap(({ labels, counts, sum }) => {
      let count = 0;
      const upTo = [...this.#buckets, '+Inf'].map((le, place): Sample => {
        count += counts[place] as number;
        return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count };
      });
      return [
        ...upTo,
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: count },
      ];
    });
    return { name, help, type, values };
  }
}

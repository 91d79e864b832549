// A chart over time, drawn by uPlot; the only file that knows it. Colours are custom properties, so that a chart follows
// the theme. What it shows is told in words too, for those who cannot see it.
import { useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { colourOf, useTheme } from '../theme.ts';

export interface Series {
  name: string;
  /** A custom property, such as `--good`. */
  colour: string;
  values: readonly (number | null)[];
  kind?: 'line' | 'bars' | 'points';
  /** Fills below the line. */
  filled?: boolean;
}

interface Props {
  /** What the chart shows, in a sentence with its latest values. */
  label: string;
  /** Milliseconds since 1970, ascending. */
  times: readonly number[];
  series: readonly Series[];
  /** A value as it is shown at the axis and in the legend. */
  words: (value: number) => string;
  height?: number;
  /** The time that is shown, in milliseconds; without it, that of the values. */
  span?: { from: number; to: number };
}

/** Of the latest Props: charts outlive renders. */
type Shown = Pick<Props, 'words' | 'span'>;

export function Chart({ label, times, series, words, height = 180, span }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const shown = useRef<Shown>({ words, ...(span === undefined ? {} : { span }) });
  const { dark } = useTheme();
  // Another set of series needs another chart; other values do not.
  const shape = series.map(({ name, colour, kind, filled }) => `${name} ${colour} ${kind} ${filled}`).join('\n');
  const data = [times.map((ms) => ms / 1000), ...series.map(({ values }) => [...values])] as uPlot.AlignedData;
  const latest = useRef({ series, data });
  useEffect(() => {
    shown.current = { words, ...(span === undefined ? {} : { span }) };
    latest.current = { series, data };
  });

  useEffect(() => {
    const holder = box.current;
    if (holder === null) return undefined;
    const chart = new uPlot(
      optionsOf(latest.current.series, shown, { width: Math.max(holder.clientWidth, 100), height }),
      latest.current.data,
      holder,
    );
    plot.current = chart;
    const watch = new ResizeObserver(() => chart.setSize({ width: Math.max(holder.clientWidth, 100), height }));
    watch.observe(holder);
    return () => {
      watch.disconnect();
      chart.destroy();
    };
  }, [shape, dark, height]);

  const key = JSON.stringify(data);
  useEffect(() => plot.current?.setData(latest.current.data), [key]);

  return <div ref={box} className="chart" role="img" aria-label={label} />;
}

function optionsOf(
  series: readonly Series[],
  shown: { current: Shown },
  size: { width: number; height: number },
): uPlot.Options {
  const soft = colourOf('--soft');
  const strokes = series.map(({ colour }) => colourOf(colour));
  const axis = {
    stroke: soft,
    font: '12px system-ui, sans-serif',
    grid: { stroke: colourOf('--line'), width: 1 },
    ticks: { show: false },
  };
  return {
    ...size,
    padding: [8, 8, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    legend: { live: true, markers: { width: 0, fill: (_, index) => strokes[index - 1] ?? soft } },
    scales: {
      x: { range: (_, min, max) => rangeOf(shown.current.span, min, max) },
      y: { range: (_, min, max) => [Math.min(0, min), max > 0 ? max * 1.1 : 1] },
    },
    axes: [
      { ...axis, size: 32, space: 60, values: (_, splits) => splits.map((seconds) => timeAt(seconds, splits)) },
      {
        ...axis,
        size: 62,
        space: 34,
        incrs: wholeSteps,
        values: (_, splits) => splits.map((value) => shown.current.words(value)),
      },
    ],
    series: [
      { value: (_, seconds) => (seconds == null ? '–' : new Date(seconds * 1000).toLocaleTimeString()) },
      ...series.map((each) => seriesOf(each, shown)),
    ],
  };
}

/** What is shown are counts and milliseconds: steps are whole. */
const wholeSteps = Array.from({ length: 12 }, (_, i) => [1, 2, 5].map((step) => step * 10 ** i)).flat();

/** A single moment is shown in the middle of a minute. */
function rangeOf(span: Props['span'], min: number | null, max: number | null): [number, number] {
  if (span !== undefined) return [span.from / 1000, span.to / 1000];
  if (min === null || max === null) return [0, 60];
  return min === max ? [min - 30, max + 30] : [min, max];
}

const daySeconds = 86_400;

function timeAt(seconds: number, splits: readonly number[]): string {
  const span = (splits.at(-1) ?? 0) - (splits[0] ?? 0);
  const time = new Date(seconds * 1000);
  if (span > 2 * daySeconds) return time.toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
  const clock = { hour: '2-digit', minute: '2-digit', hour12: false } as const;
  return time.toLocaleTimeString(undefined, span < 300 ? { ...clock, second: '2-digit' } : clock);
}

function seriesOf({ name, colour, kind = 'line', filled = false }: Series, shown: { current: Shown }): uPlot.Series {
  const stroke = colourOf(colour);
  const bars = kind === 'bars';
  return {
    label: name,
    stroke,
    width: bars ? 0 : 2,
    ...(filled || bars ? { fill: bars ? stroke : stroke.replace(/^rgb\((.*)\)$/, 'rgba($1, 0.13)') } : {}),
    ...(bars ? { paths: uPlot.paths.bars?.({ size: [0.7, 24] }) as uPlot.Series.PathBuilder } : {}),
    ...(kind === 'points' ? { paths: () => null } : {}),
    points: { ...(kind === 'line' ? {} : { show: kind === 'points' }), size: 6, fill: stroke },
    value: (_, value) => (value == null ? '–' : shown.current.words(value)),
  };
}

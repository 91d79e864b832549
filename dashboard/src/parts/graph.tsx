// The steps of a workflow as a drawing: boxes in the colours of their states, with what they need. Arrow keys go from step
// to step, Enter opens one, + - 0 zoom. The same steps stand in a list beside it, for whoever cannot use a drawing.
import type { StepState, WorkflowStep } from '@punctual/contract';
import { type KeyboardEvent, memo, useEffect, useMemo, useRef, useState } from 'react';
import { type Layout, layOut, stepHeight, stepWidth } from './graph_layout.ts';
import { type Box, useView } from './graph_view.ts';
import { stepTones } from './workflow_marks.tsx';
import './graph.css';

export type GraphStep = Pick<WorkflowStep, 'step' | 'kind' | 'state' | 'needs' | 'level' | 'items'>;

export interface GraphProps {
  steps: readonly GraphStep[];
  selected: string | undefined;
  onSelect: (step: string) => void;
}

export function Graph({ steps, selected, onSelect }: GraphProps) {
  const svg = useRef<SVGSVGElement>(null);
  const stage = useRef<SVGGElement>(null);
  const layout = useLayout(steps);
  const view = useView(svg, stage, layout);
  const [at, setAt] = useState(selected ?? steps[0]?.step);
  const states = useMemo(() => new Map(steps.map(({ step, state }) => [step, state])), [steps]);

  // What is too large to be read as a whole begins with the step that matters most. When the room changes, what nobody has
  // moved is fitted anew, and else the step that is open is kept in view.
  const latest = useRef({ steps, selected });
  useEffect(() => {
    latest.current = { steps, selected };
  });
  useEffect(() => {
    const holder = svg.current;
    if (holder === null) return undefined;
    const show = (): void => {
      const first = latest.current.selected ?? matters(latest.current.steps);
      const place = first === undefined ? undefined : boxOf(layout, first);
      const { width, height } = holder.getBoundingClientRect();
      const isSmall = Math.min(width / layout.width, height / layout.height) < 0.55;
      if (view.isMoved()) {
        if (place !== undefined && latest.current.selected !== undefined) view.reveal(place);
      } else if (isSmall && place !== undefined) view.centre(place);
      else view.fit();
    };
    const watch = new ResizeObserver(show);
    watch.observe(holder);
    return () => watch.disconnect();
  }, [layout, view]);

  const go = (step: string | undefined): void => {
    if (step === undefined) return;
    setAt(step);
    const place = boxOf(layout, step);
    if (place !== undefined) view.reveal(place);
    stage.current?.querySelector<SVGGElement>(`[data-step="${CSS.escape(step)}"]`)?.focus({ preventScroll: true });
  };

  const press = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = keys[event.key];
    if (act === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (act === 'open') {
      if (at !== undefined) onSelect(at);
    } else if (act === 'fit') view.fit();
    else if (typeof act === 'number') view.zoom(act);
    else if (at !== undefined) go(neighbour(layout, steps, at, act));
  };

  return (
    <div className="graph" style={{ height: `min(70vh, ${Math.max(least, layout.height + 96)}px)` }}>
      <div className="graph-tools" role="group" aria-label="View of the drawing">
        <button type="button" className="plain" aria-label="Larger" title="Larger (+)" onClick={() => view.zoom(1.3)}>
          +
        </button>
        <button
          type="button"
          className="plain"
          aria-label="Smaller"
          title="Smaller (-)"
          onClick={() => view.zoom(1 / 1.3)}
        >
          −
        </button>
        <button type="button" className="plain" title="See all of it (0)" onClick={view.fit}>
          Fit
        </button>
      </div>
      {/* biome-ignore lint/a11y/useSemanticElements: a drawing has no fieldset */}
      <svg ref={svg} role="group" aria-label={`${steps.length} steps; arrow keys go between them`} onKeyDown={press}>
        <g ref={stage}>
          <Edges layout={layout} states={states} />
          {steps.map((step) => (
            <StepBox
              key={step.step}
              step={step}
              place={layout.places.get(step.step)}
              isSelected={step.step === selected}
              isReachable={step.step === at}
              onSelect={onSelect}
              onFocus={setAt}
            />
          ))}
        </g>
      </svg>
    </div>
  );
}

/** States change all the time, the order among steps never: the drawing is laid out once. */
function useLayout(steps: readonly GraphStep[]): Layout {
  const kept = useRef<{ text: string; layout: Layout }>(undefined);
  const text = steps.map(({ step, needs }) => `${step}<${needs.map((need) => need.step).join()}`).join(';');
  if (kept.current?.text !== text) {
    const shapes = steps.map(({ step, level, needs }) => ({ id: step, level, needs: needs.map((need) => need.step) }));
    kept.current = { text, layout: layOut(shapes) };
  }
  return kept.current.layout;
}

const boxOf = (layout: Layout, step: string): Box | undefined => {
  const place = layout.places.get(step);
  return place === undefined ? undefined : { ...place, width: stepWidth, height: stepHeight };
};

function matters(steps: readonly GraphStep[]): string | undefined {
  for (const state of ['FAILED', 'WAITING', 'RUNNING', 'QUEUED'] as StepState[]) {
    const found = steps.find((step) => step.state === state);
    if (found !== undefined) return found.step;
  }
  return steps[0]?.step;
}

/** Pixels: a drawing of one row still has room for the buttons above it. */
const least = 240;

type Direction = 'left' | 'right' | 'up' | 'down';

const keys: Record<string, Direction | 'open' | 'fit' | number | undefined> = {
  ArrowLeft: 'left',
  ArrowRight: 'right',
  ArrowUp: 'up',
  ArrowDown: 'down',
  Enter: 'open',
  ' ': 'open',
  '0': 'fit',
  '+': 1.3,
  '-': 1 / 1.3,
};

/** Left to what it needs, right to what needs it, up and down within the column; of several the nearest. */
function neighbour(
  layout: Layout,
  steps: readonly GraphStep[],
  from: string,
  direction: Direction,
): string | undefined {
  const here = layout.places.get(from);
  if (here === undefined) return undefined;
  const fits = ({ step, needs }: GraphStep): boolean => {
    const there = layout.places.get(step);
    if (there === undefined || step === from) return false;
    if (direction === 'left')
      return steps.some((one) => one.step === from && one.needs.some((need) => need.step === step));
    if (direction === 'right') return needs.some((need) => need.step === from);
    return there.x === here.x && (direction === 'up' ? there.y < here.y : there.y > here.y);
  };
  let best: string | undefined;
  let nearest = Number.POSITIVE_INFINITY;
  for (const step of steps) {
    if (!fits(step)) continue;
    const distance = Math.abs((layout.places.get(step.step)?.y ?? 0) - here.y);
    if (distance >= nearest) continue;
    nearest = distance;
    best = step.step;
  }
  return best;
}

const Edges = memo(function Edges({ layout, states }: { layout: Layout; states: Map<string, StepState> }) {
  return (
    <g className="graph-edges" aria-hidden="true">
      {layout.edges.map(({ from, to, path }) => (
        <path key={`${from} ${to}`} d={path} className={states.get(from) === 'SUCCESS' ? 'done' : undefined} />
      ))}
    </g>
  );
});

interface StepBoxProps {
  step: GraphStep;
  place: { x: number; y: number } | undefined;
  isSelected: boolean;
  isReachable: boolean;
  onSelect: (step: string) => void;
  onFocus: (step: string) => void;
}

const StepBox = memo(
  function StepBox({ step, place, isSelected, isReachable, onSelect, onFocus }: StepBoxProps) {
    if (place === undefined) return null;
    const below = shorten(underName(step), 30);
    const name = shorten(step.step, 24);
    const isShort = name !== step.step;
    return (
      <g
        role="button"
        tabIndex={isReachable ? 0 : -1}
        data-step={step.step}
        aria-label={isShort ? `${name} ${below} (${step.step})` : undefined}
        aria-pressed={isSelected}
        className={`step ${stepTones[step.state]}`}
        transform={`translate(${place.x} ${place.y})`}
        onClick={() => onSelect(step.step)}
        onFocus={() => onFocus(step.step)}
      >
        <rect className="box" width={stepWidth} height={stepHeight} rx={8} />
        <rect className="bar" width={5} height={stepHeight - 14} x={7} y={7} rx={2.5} />
        <text className="name" x={21} y={19}>
          {name}
        </text>{' '}
        <text className="under" x={21} y={36}>
          {below}
        </text>
      </g>
    );
  },
  (before, after) =>
    before.step.state === after.step.state &&
    underName(before.step) === underName(after.step) &&
    before.place === after.place &&
    before.isSelected === after.isSelected &&
    before.isReachable === after.isReachable &&
    before.onSelect === after.onSelect,
);

function underName({ state, kind, items }: GraphStep): string {
  const word = state.toLowerCase();
  if (kind === 'map' && items !== undefined) {
    const failed = items.failed === 0 ? '' : `, ${items.failed} failed`;
    return `${word} · ${items.succeeded} of ${items.total} items${failed}`;
  }
  return kind === 'job' ? word : `${word} · ${kind}`;
}

const shorten = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// Where the steps of a workflow stand: a column for each level, as the server numbers them. Pure, and quick enough for a
// thousand steps (a general layout library took ten seconds for those).
//
// An edge over several columns is led through invisible places in the columns between, so that it passes between steps and
// not under them. Then the usual three passes: order within the columns by the mean of the neighbours, heights as near to
// the neighbours as the order and the room allow (`spread`), curves through the places.

export interface Shape {
  id: string;
  level: number;
  needs: readonly string[];
}

export interface Edge {
  from: string;
  to: string;
  path: string;
}

export interface Layout {
  places: Map<string, { x: number; y: number }>;
  edges: Edge[];
  width: number;
  height: number;
}

export const stepWidth = 196;
export const stepHeight = 46;
const columnGap = 64;
const rowGap = 14;
/** The height that a passing edge takes. */
const passing = 10;
/** Above so many places of passing edges their drawing would cost more than it shows: then edges go straight. */
const maxPassing = 6000;
const sweeps = 6;

interface Place {
  column: number;
  height: number;
  y: number;
  /** Rank within its column. */
  rank: number;
  before: Place[];
  after: Place[];
}

export function layOut(steps: readonly Shape[]): Layout {
  const places = new Map<string, Place>();
  const columns: Place[][] = [];
  const add = (column: number, height: number): Place => {
    const members = (columns[column] ??= []);
    const place: Place = { column, height, y: 0, rank: members.length, before: [], after: [] };
    members.push(place);
    return place;
  };
  for (const { id, level } of steps) places.set(id, add(level, stepHeight));
  const routes = connect(steps, places, add);
  order(columns);
  align(columns);
  const lowest = Math.min(0, ...columns.map((column) => (column[0]?.y ?? 0) - (column[0]?.height ?? 0) / 2));
  for (const column of columns) for (const place of column) place.y -= lowest;
  const bottoms = columns.map((column) => (column.at(-1)?.y ?? 0) + (column.at(-1)?.height ?? 0) / 2);
  return {
    places: new Map([...places].map(([id, place]) => [id, { x: xOf(place), y: place.y - stepHeight / 2 }])),
    edges: routes.map(({ from, to, way }) => ({ from, to, path: curve(way) })),
    width: columns.length * (stepWidth + columnGap) - columnGap,
    height: Math.max(0, ...bottoms),
  };
}

interface Route {
  from: string;
  to: string;
  way: Place[];
}

function connect(
  steps: readonly Shape[],
  places: Map<string, Place>,
  add: (column: number, height: number) => Place,
): Route[] {
  const routes: Route[] = [];
  let room = maxPassing;
  for (const { id, needs } of steps) {
    const end = places.get(id) as Place;
    for (const need of needs) {
      const start = places.get(need);
      if (start === undefined) continue;
      const between = Math.max(0, end.column - start.column - 1);
      const way = [start];
      if (between <= room) for (let i = 1; i <= between; i += 1) way.push(add(start.column + i, passing));
      room -= Math.min(room, between);
      way.push(end);
      for (const [i, place] of way.entries()) {
        const next = way[i + 1];
        if (next === undefined) continue;
        place.after.push(next);
        next.before.push(place);
      }
      routes.push({ from: need, to: id, way });
    }
  }
  return routes;
}

function order(columns: Place[][]): void {
  const arrange = (column: Place[], side: 'before' | 'after'): void => {
    const weights = new Map(column.map((place) => [place, meanRank(place, place[side])]));
    column.sort((a, b) => (weights.get(a) as number) - (weights.get(b) as number) || a.rank - b.rank);
    for (const [rank, place] of column.entries()) place.rank = rank;
  };
  for (let sweep = 0; sweep < sweeps; sweep += 1) {
    for (const column of columns) arrange(column, 'before');
    for (const column of columns.toReversed()) arrange(column, 'after');
  }
}

function meanRank(place: Place, neighbours: readonly Place[]): number {
  if (neighbours.length === 0) return place.rank;
  return neighbours.reduce((sum, { rank }) => sum + rank, 0) / neighbours.length;
}

function align(columns: Place[][]): void {
  for (const column of columns) spread(column, () => 0);
  for (let sweep = 0; sweep < sweeps; sweep += 1) {
    for (const column of columns) spread(column, ({ before, y }) => mean(before, y));
    for (const column of columns.toReversed()) spread(column, ({ after, y }) => mean(after, y));
  }
}

function mean(neighbours: readonly Place[], otherwise: number): number {
  if (neighbours.length === 0) return otherwise;
  return neighbours.reduce((sum, { y }) => sum + y, 0) / neighbours.length;
}

/** Puts each as near as possible to where it wants to be, in order and without overlap: those in each other's way form a
 *  block, which stands at the mean of what its members want. */
function spread(column: readonly Place[], wants: (place: Place) => number): void {
  const blocks: { sum: number; count: number; first: number }[] = [];
  const offsets: number[] = [];
  for (const [i, place] of column.entries()) {
    const above = column[i - 1];
    const gap = above === undefined ? 0 : (above.height + place.height) / 2 + rowGap;
    offsets.push((offsets[i - 1] ?? 0) + gap);
    blocks.push({ sum: wants(place) - (offsets[i] as number), count: 1, first: i });
    for (let last = blocks.at(-1), prior = blocks.at(-2); last !== undefined && prior !== undefined; ) {
      if (prior.sum / prior.count <= last.sum / last.count) break;
      blocks.pop();
      prior.sum += last.sum;
      prior.count += last.count;
      last = prior;
      prior = blocks.at(-2);
    }
  }
  for (const { sum, count, first } of blocks)
    for (let i = first; i < first + count; i += 1) {
      const place = column[i];
      if (place !== undefined) place.y = sum / count + (offsets[i] as number);
    }
}

const xOf = ({ column }: Place): number => column * (stepWidth + columnGap);

/** From the right edge of a step to the left edge of another, level at every place on the way. */
function curve(way: readonly Place[]): string {
  const points = way.flatMap((place, i) => {
    const x = xOf(place);
    if (i === 0) return [[x + stepWidth, place.y] as const];
    if (i === way.length - 1) return [[x, place.y] as const];
    return [[x, place.y] as const, [x + stepWidth, place.y] as const];
  });
  let path = '';
  let px = 0;
  let py = 0;
  for (const [i, [x, y]] of points.entries()) {
    if (i === 0) path = `M${round(x)} ${round(y)}`;
    else if (y === py) path += `H${round(x)}`;
    else {
      const half = round((px + x) / 2);
      path += `C${half} ${round(py)} ${half} ${round(y)} ${round(x)} ${round(y)}`;
    }
    px = x;
    py = y;
  }
  return path;
}

const round = (n: number): number => Math.round(n * 10) / 10;

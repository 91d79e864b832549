// The brute-force oracle of schedules: walks every minute (or second) of a span, asks Intl what the clock on the wall
// shows, matches the fields by a naive reading of their text and applies the policies by looking at the walk. It shares
// no code with what it judges. Also the seeded dice that make expressions.

export interface Tick {
  ms: number;
  /** What the clock shows, as if it were UTC. */
  wall: number;
  /** The how-manieth time the clock shows this, and how often it does in the whole walk. */
  nth: number;
  times: number;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Sweden writes its dates as ISO does. */
export function wallAt(zone: string, ms: number): number {
  let format = formats.get(zone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' });
    formats.set(zone, format);
  }
  return Date.parse(`${format.format(ms).replace(' ', 'T')}Z`);
}

/** Begin and end it some hours around what is judged: only inside it is known what the clock shows twice. */
export function walk(zone: string, fromMs: number, toMs: number, stepMs: number): Tick[] {
  const ticks: Tick[] = [];
  const shown = new Map<number, number>();
  for (let ms = fromMs; ms <= toMs; ms += stepMs) {
    const wall = wallAt(zone, ms);
    const nth = (shown.get(wall) ?? 0) + 1;
    shown.set(wall, nth);
    ticks.push({ ms, wall, nth, times: 1 });
  }
  for (const tick of ticks) tick.times = shown.get(tick.wall) ?? 1;
  return ticks;
}

export interface Expected {
  nominal_ms: number;
  local: string;
  note: string | null;
}

export interface Policy {
  dst_gap: 'run_after' | 'skip';
  dst_overlap: 'first' | 'both';
}

/** Every occurrence of one expression in the walk. */
export function expectedIn(ticks: readonly Tick[], stepMs: number, text: string, policy: Policy): Expected[] {
  const matches = naiveMatcher(text);
  const words = text.split(' ');
  const clock = words.slice(0, words.length - 3).join(' ');
  const isFixed = !/[*?/]/.test(clock);
  const expected: Expected[] = [];
  let before: number | null = null;
  for (const { ms, wall, nth, times } of ticks) {
    let missing: number | null = null;
    if (before !== null && isFixed && policy.dst_gap === 'run_after') {
      for (let left = before + stepMs; left < wall && missing === null; left += stepMs)
        if (matches(left)) missing = left;
    }
    before = wall;
    if (missing !== null) {
      expected.push({ nominal_ms: ms, local: textOf(missing), note: 'gap_moved' });
      continue;
    }
    if (!matches(wall) || (isFixed && policy.dst_overlap === 'first' && nth > 1)) continue;
    const note = times === 1 ? null : nth === 1 ? 'overlap_first' : 'overlap_second';
    expected.push({ nominal_ms: ms, local: textOf(wall), note });
  }
  return expected;
}

export function textOf(wall: number): string {
  return new Date(wall).toISOString().slice(0, 19);
}

const weekdays = 'SUN MON TUE WED THU FRI SAT'.split(' ');
const months = 'JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC'.split(' ');

/** Reads five or six fields, and remembers what each field said of a value. */
export function naiveMatcher(text: string): (wall: number) => boolean {
  const words = text.toUpperCase().split(' ');
  if (words.length === 5) words.unshift('0');
  const [second = '', minute = '', hour = '', dom = '', month = '', dow = ''] = words;
  const fieldOf = (word: string, max: number, names: string[] = [], base = 0): boolean[] =>
    Array.from({ length: max + 1 }, (_, value) => inField(word, value, max, names, base));
  const [seconds, minutes, hours] = [fieldOf(second, 59), fieldOf(minute, 59), fieldOf(hour, 23)];
  const monthTable = fieldOf(month, 12, months, 1);
  const days = new Map<number, boolean>();
  const dayMatches = (wall: number): boolean => {
    const day = Math.floor(wall / 86_400_000);
    let known = days.get(day);
    if (known === undefined) {
      const byMonth = dom.split(',').some((item) => inMonth(item, day));
      const byWeek = dow.split(',').some((item) => inWeek(item, day));
      const free = /^[*?]/.test(dom) || /^[*?]/.test(dow);
      known = free ? byMonth && byWeek : byMonth || byWeek;
      days.set(day, known);
    }
    return known;
  };
  return (wall) => {
    const date = new Date(wall);
    return (
      seconds[date.getUTCSeconds()] === true &&
      minutes[date.getUTCMinutes()] === true &&
      hours[date.getUTCHours()] === true &&
      monthTable[date.getUTCMonth() + 1] === true &&
      dayMatches(wall)
    );
  };
}

/** `*`, `5`, `5-9`, `* /2`, `5/2`, `5-9/2`, lists of these. */
function inField(word: string, value: number, max: number, names: string[], base: number): boolean {
  const numberOf = (name: string): number => (names.includes(name) ? names.indexOf(name) + base : Number(name));
  return word.split(',').some((item) => {
    const [range = '', step] = item.split('/');
    let [from, to] = [base, max];
    if (range !== '*' && range !== '?') {
      const [first = '', last] = range.split('-');
      from = numberOf(first);
      to = last === undefined ? (step === undefined ? from : max) : numberOf(last);
    }
    return value >= from && value <= to && (value - from) % Number(step ?? 1) === 0;
  });
}

const dateOf = (day: number): Date => new Date(day * 86_400_000);
const isWorkday = (day: number): boolean => ![0, 6].includes(dateOf(day).getUTCDay());
const sameMonth = (a: number, b: number): boolean => dateOf(a).getUTCMonth() === dateOf(b).getUTCMonth();

function inMonth(item: string, day: number): boolean {
  const isLast = !sameMonth(day, day + 1);
  if (item === 'L') return isLast;
  if (item === 'LW') {
    let later = day + 1;
    while (sameMonth(day, later) && !isWorkday(later)) later += 1;
    return isWorkday(day) && !sameMonth(day, later);
  }
  if (item.endsWith('W')) {
    const first = day - dateOf(day).getUTCDate() + 1;
    const wanted = first + Number(item.slice(0, -1)) - 1;
    if (!sameMonth(day, wanted)) return false;
    for (const distance of [0, -1, 1, -2, 2]) {
      const near = wanted + distance;
      if (sameMonth(near, day) && isWorkday(near)) return near === day;
    }
    return false;
  }
  return inField(item, dateOf(day).getUTCDate(), 31, [], 1);
}

function inWeek(item: string, day: number): boolean {
  const weekday = dateOf(day).getUTCDay();
  const isDay = (name: string): boolean =>
    weekdays.includes(name) ? weekdays[weekday] === name : Number(name) % 7 === weekday;
  if (item.includes('#')) {
    const [name = '', nth] = item.split('#');
    return isDay(name) && Math.ceil(dateOf(day).getUTCDate() / 7) === Number(nth);
  }
  if (item.endsWith('L')) return isDay(item.slice(0, -1)) && !sameMonth(day, day + 7);
  return (
    inField(item, weekday, 6, weekdays, 0) || (weekday === 0 && inField(item, 7, 7, weekdays, 0) && /7/.test(item))
  );
}

/** Dice that fall the same for the same seed (mulberry32). */
export interface Dice {
  roll(sides: number): number;
  pick<T>(list: readonly T[]): T;
}

export function diceOf(seed: number): Dice {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  const roll = (sides: number): number => next() % sides;
  return { roll, pick: (list) => list[roll(list.length)] as (typeof list)[number] };
}

/** An expression that has a good chance to fire near a wall-clock time; with `seconds` it has six fields. */
export function rollExpression(dice: Dice, near: number, seconds = false): string {
  const date = new Date(near);
  const minute = dice.pick([
    `${dice.roll(60)}`,
    '0',
    '30',
    `${dice.roll(30)},${30 + dice.roll(30)}`,
    rollRange(dice, 60),
    `*/${1 + dice.roll(30)}`,
    '*',
    `${dice.roll(20)}/${5 + dice.roll(20)}`,
    '15-45/10',
  ]);
  const hour = dice.pick([
    `${dice.roll(5)}`,
    `${dice.roll(24)}`,
    `${date.getUTCHours()}`,
    '1,2,3',
    '0-3',
    '23,0',
    rollRange(dice, 24),
    `*/${1 + dice.roll(12)}`,
    '*',
    '*',
    '0-6/2',
  ]);
  const day = date.getUTCDate();
  const dom = dice.pick([
    '*',
    '*',
    '*',
    '*',
    '?',
    `${day}`,
    `${Math.min(day, 28)}-31`,
    'L',
    'LW',
    `${day}W`,
    `1,${day}`,
    '*/2',
    '1-15/3',
    '15,L',
  ]);
  const month = dice.pick([
    '*',
    '*',
    '*',
    '*',
    `${date.getUTCMonth() + 1}`,
    `${months[date.getUTCMonth()]?.toLowerCase()}`,
    '*/2',
    'MAR-APR,SEP-NOV',
  ]);
  const weekday = date.getUTCDay();
  const name = weekdays[weekday] ?? '';
  const dow = dice.pick([
    '*',
    '*',
    '*',
    '*',
    '?',
    name,
    `${weekday}`,
    'MON-FRI',
    '6-7',
    '0,6',
    'SUN',
    '7',
    `${name}L`,
    `${weekday}#${1 + dice.roll(5)}`,
    `${name.toLowerCase()}#1`,
    '*/3',
  ]);
  const first = seconds ? `${dice.pick(['0', '30', '*', '*/7', '5,50', '10-20', `${dice.roll(60)}`])} ` : '';
  return `${first}${minute} ${hour} ${dom} ${month} ${dow}`;
}

function rollRange(dice: Dice, count: number): string {
  const from = dice.roll(count - 1);
  return `${from}-${from + dice.roll(count - from)}`;
}

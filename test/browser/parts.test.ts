// The pure parts of the dashboard: where steps are drawn, where in a text an error stands, what is safe to be shown, what
// differs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { CalendarWindow } from '@punctual/contract';
import fc from 'fast-check';
import { importSource } from '../support/source.ts';

interface Shape {
  id: string;
  level: number;
  needs: string[];
}
interface Layouts {
  layOut: (steps: Shape[]) => {
    places: Map<string, { x: number; y: number }>;
    edges: { from: string; to: string; path: string }[];
    width: number;
    height: number;
  };
  stepWidth: number;
  stepHeight: number;
}

const graphs = fc.array(fc.array(fc.nat(), { maxLength: 4 }), { minLength: 1, maxLength: 60 }).map((all) => {
  const steps: Shape[] = [];
  for (const [i, picks] of all.entries()) {
    const needs = [...new Set(i === 0 ? [] : picks.map((pick) => `s${pick % i}`))];
    const levels = needs.map((need) => steps.find(({ id }) => id === need)?.level ?? 0);
    steps.push({ id: `s${i}`, level: needs.length === 0 ? 0 : 1 + Math.max(...levels), needs });
  }
  return steps;
});

test('steps are drawn within the drawing, right of what they need, and never over each other', async () => {
  const { layOut, stepWidth, stepHeight } = await importSource<Layouts>('parts/graph_layout.ts');
  fc.assert(
    fc.property(graphs, (steps) => {
      const { places, edges, width, height } = layOut(steps);
      const at = (id: string) => places.get(id) as { x: number; y: number };
      for (const { id, needs } of steps) {
        const { x, y } = at(id);
        assert.ok(
          x >= 0 && y >= -0.01 && x + stepWidth <= width && y + stepHeight <= height + 0.01,
          `${id} is outside`,
        );
        for (const need of needs) assert.ok(at(need).x + stepWidth < x, `${id} is not right of ${need}`);
      }
      for (const [i, one] of steps.entries())
        for (const other of steps.slice(i + 1)) {
          const [a, b] = [at(one.id), at(other.id)];
          assert.ok(a.x !== b.x || Math.abs(a.y - b.y) >= stepHeight, `${one.id} lies over ${other.id}`);
        }
      assert.equal(
        edges.length,
        steps.reduce((sum, { needs }) => sum + needs.length, 0),
      );
      assert.ok(edges.every(({ path }) => /^M[\d.\s-]+([HC][\d.\s-]+)+$/.test(path)));
    }),
    { numRuns: 100 },
  );
});

test('an error is placed at the value its path names, or at the nearest part that is there', async () => {
  const { placeOf } = await importSource<{ placeOf: (text: string, path: string) => number }>('parts/json_places.ts');
  const text = JSON.stringify({ name: 'a "b" {c}', steps: { 'load-it': { needs: ['x', { step: 'y' }] } } }, null, 2);
  const at = (path: string) => text.slice(placeOf(text, path));
  assert.match(at('steps.load-it.needs[1].step'), /^"step": "y"/);
  assert.match(at('steps.load-it.needs[0]'), /^"x"/);
  assert.match(at('steps.load-it.type'), /^"load-it"/, 'what is missing belongs to what it is missing in');
  assert.match(at('name'), /^"name"/);
  assert.equal(placeOf(text, 'nothing.here'), 0);
  fc.assert(
    fc.property(fc.json(), fc.string(), (json, path) => {
      const place = placeOf(json, path);
      return place >= 0 && place <= json.length;
    }),
  );
});

test('a found line is shown whole, with its places, and without what hides or turns text', async () => {
  interface Parts {
    pieces: (text: string, found: { from: number; to: number }[]) => { text: string; found: boolean }[];
  }
  const { pieces } = await importSource<Parts>('parts/harmless.ts');
  assert.deepEqual(pieces('a\u001bb\u202ec', [{ from: 2, to: 3 }]), [
    { text: 'a\u241b', found: false },
    { text: 'b', found: true },
    { text: '\u2421c', found: false },
  ]);
  const span = fc.record({ from: fc.integer({ min: -5, max: 40 }), to: fc.integer({ min: -5, max: 40 }) });
  fc.assert(
    fc.property(fc.string({ maxLength: 30 }), fc.array(span, { maxLength: 5 }), (text, found) => {
      const shown = pieces(text, found);
      assert.equal(shown.map((piece) => piece.text).join('').length, text.length);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these must be gone
      assert.ok(shown.every((piece) => !/[\u0000-\u0008\u000b-\u001f\u202a-\u202e]/.test(piece.text)));
    }),
  );
});

test('windows of calendars are written as lines and read back', async () => {
  interface Parts {
    windowsText: (windows: CalendarWindow[]) => string;
    readWindows: (text: string) => CalendarWindow[];
  }
  const { windowsText, readWindows } = await importSource<Parts>('parts/calendar_text.ts');
  const windows = [
    { dates: ['12-25', '2030-12-24/2030-12-31'] },
    { days: ['SAT-SUN', 'MON'] },
    { days: ['MON-FRI'], hours: ['09:00-17:00'] },
    { dates: ['01-01'], hours: ['22:00-06:00', '0:00-1:00'] },
  ];
  assert.deepEqual(readWindows(windowsText(windows)), windows);
  assert.deepEqual(readWindows(' \n12-25,  01-01\n\n'), [{ dates: ['12-25', '01-01'] }]);
});

test('a difference names each field that was added, changed or removed, and no other', async () => {
  interface Differences {
    differences: (before: unknown, after: unknown) => { path: string; before?: string; after?: string }[];
    inOneLine: (found: unknown) => string;
  }
  const { differences, inOneLine } = await importSource<Differences>('parts/difference.ts');
  const found = differences(
    { same: [1, 2], state: 'hold', deep: { a: 1, b: null }, gone: true },
    { same: [1, 2], state: 'open', deep: { a: 2, b: null }, new: 'x' },
  );
  assert.deepEqual(
    found.map(({ path, before, after }) => [path, before, after]),
    [
      ['state', 'hold', 'open'],
      ['deep.a', '1', '2'],
      ['gone', 'true', undefined],
      ['new', undefined, 'x'],
    ],
  );
  assert.equal(inOneLine(found), 'state: hold → open, deep.a: 1 → 2, gone: true → –, new: x');
  assert.deepEqual(differences(null, null), []);
  assert.deepEqual(differences({ a: 1 }, { a: 1 }), []);
});

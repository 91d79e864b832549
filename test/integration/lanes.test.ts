// What a server remembers of lanes, against a book that has lost some of them, as after a failover to a standby that had not got
// them yet.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { type LaneKey, Lanes } from '@punctual/server/internal/store/lanes';
import { type Book, openBook } from '../support/book.ts';

let book: Book;
/** One server's. */
let lanes: Lanes;

before(async () => {
  book = await openBook();
});
beforeEach(async () => {
  await book.clear('lanes');
  await book.query(`select setval('punctual.lanes_lane_id_seq', 100)`);
  lanes = new Lanes(book.db);
  await lanes.ensure(['a', 'b', 'c'].map((type) => keyOf(type)));
});
after(() => book.close());

const keyOf = (type: string, stage: LaneKey['stage'] = 'plain'): LaneKey => ({
  queue: 'default',
  type,
  executor: 'handler',
  priority: 5,
  requires: '',
  stage,
});

const inBook = async (): Promise<Record<string, number>> => {
  const rows = await book.query<{ type: string; lane_id: number }>(
    'select type, lane_id from punctual.lanes order by lane_id',
  );
  return Object.fromEntries(rows.map(({ type, lane_id }) => [type, lane_id]));
};

/** The book forgets the lanes of these types and from when on it counted. */
const lose = async (...types: string[]): Promise<void> => {
  await book.query('delete from punctual.lanes where type = any ($1)', [types]);
  await book.query(
    `select setval('punctual.lanes_lane_id_seq', coalesce((select max(lane_id) from punctual.lanes), 100))`,
  );
};

test('lanes that the book has lost are put back under their numbers, and new ones get others', async () => {
  const whole = await inBook();
  await lose('b', 'c');
  await lanes.reread();
  assert.deepEqual(await inBook(), whole);
  const [d] = await new Lanes(book.db).ensure([keyOf('d')]);
  assert.ok(d !== undefined && d.lane_id > Math.max(...Object.values(whole)), `lane ${d?.lane_id}`);
});

test('two servers that remember the same put it back once, and twins stay with their entries', async () => {
  const other = new Lanes(book.db);
  await lanes.ensure([keyOf('keyed', 'entry')]);
  await lanes.ensureTwins();
  await other.refresh();
  const whole = await book.query('select * from punctual.lanes order by lane_id');
  assert.equal(whole.length, 5);
  await lose('b', 'keyed');
  await Promise.all([lanes.reread(), other.reread()]);
  assert.deepEqual(await book.query('select * from punctual.lanes order by lane_id'), whole);
});

test('a number that the book has given to another lane is that one’s, and the lost one gets its own', async () => {
  const { c = 0 } = await inBook();
  await lose('c');
  const [d] = await new Lanes(book.db).ensure([keyOf('d')]);
  assert.equal(d?.lane_id, c, 'the number was not given again');
  await lanes.reread();
  assert.equal(lanes.get(c).type, 'd');
  const [again] = await lanes.ensure([keyOf('c')]);
  assert.ok(again !== undefined && again.lane_id !== c);
  assert.deepEqual(Object.values(await inBook()).sort(), [...new Set(Object.values(await inBook()))].sort());
});

test('a lost lane that somebody has made again has the number that the book gave it', async () => {
  const { c = 0 } = await inBook();
  await lose('c');
  await book.query(`select setval('punctual.lanes_lane_id_seq', 200)`);
  const [made] = await new Lanes(book.db).ensure([keyOf('c')]);
  await lanes.reread();
  assert.deepEqual(await lanes.ensure([keyOf('c')]), [made]);
  // What was written under the old number in between is still claimed.
  assert.equal(lanes.get(c).type, 'c');
});

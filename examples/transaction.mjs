// @ts-check
// A shop whose data lies in the same database as Punctual: it submits a job in the transaction that writes an order, and the
// handler writes the invoice in the transaction that completes the run. Each is there with the other or not at all.
//
//   DATABASE_URL=postgres://… npx punctual server        in one terminal
//   DATABASE_URL=postgres://… node examples/transaction.mjs    in another; arguments name the server and the database
import { Client, Worker } from '@punctual/sdk';
import pg from 'pg';

const url = process.argv[2] ?? 'http://127.0.0.1:7600';
const pool = new pg.Pool({ connectionString: process.argv[3] ?? process.env['DATABASE_URL'] });

/** @param {(tx: import('pg').PoolClient) => Promise<any>} work */
async function inTransaction(work) {
  const tx = await pool.connect();
  try {
    await tx.query('begin');
    const result = await work(tx);
    await tx.query('commit');
    return result;
  } catch (error) {
    await tx.query('rollback');
    throw error;
  } finally {
    tx.release();
  }
}

const worker = new Worker({
  url,
  handlers: {
    'example-invoice': async (run, ctx) => {
      const { order } = /** @type {{ order: number }} */ (run.payload);
      await inTransaction(async (tx) => {
        await tx.query('insert into example_invoices (order_id) values ($1)', [order]);
        await ctx.completeIn(tx, { invoiced: order });
        if (run.attempt_number === 1) throw new Error('the power went out');
      });
    },
  },
});

const client = new Client({ url });
try {
  await pool.query('create table example_orders (order_id integer)');
  await pool.query('create table example_invoices (order_id integer)');
  await worker.start();

  /** @param {number} order */
  const place = (order) =>
    inTransaction(async (tx) => {
      await tx.query('insert into example_orders values ($1)', [order]);
      const { rows } = await tx.query(
        `select punctual.submit('example-invoice', $1, backoff => '{"base_ms": 100}') as job_id`,
        [JSON.stringify({ order })],
      );
      if (order === 2) throw new Error('out of stock');
      return rows[0].job_id;
    });

  const jobId = await place(1);
  await place(2).catch((error) => console.log(`order 2: ${error.message}`));
  const run = await client.jobs.waitFor(jobId);
  console.log(`order 1: ${run.status} at attempt ${run.attempt_number}: ${JSON.stringify(run.result)}`);
  const { rows } = await pool.query(
    'select (select count(*) from example_orders) as orders, count(*) as invoices from example_invoices',
  );
  console.log(`${rows[0].orders} order, ${rows[0].invoices} invoice`);
} finally {
  client.close();
  await worker.stop();
  await pool.query('drop table if exists example_orders, example_invoices');
  await pool.end();
}

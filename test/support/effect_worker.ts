// A worker process for tests of effects: its handler writes a row into a table of its own in Punctual's database and completes
// its run in the same transaction. The payload says what befalls it there. Arguments: url, id, database url.
import { type Handler, Worker } from '@punctual/sdk';
import pg from 'pg';

const [url = '', id = '', databaseUrl = ''] = process.argv.slice(2);
const pool = new pg.Pool({ connectionString: databaseUrl });
pool.on('error', () => {}); // the query under way fails with it

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const die = async (): Promise<void> => {
  process.kill(process.pid, 'SIGKILL');
  await sleep(60_000);
};

const effect: Handler = async (run, ctx) => {
  const { befalls } = run.payload as { befalls?: 'dies_before_commit' | 'dies_after_commit' | 'freezes' };
  const first = run.attempt_number === 1;
  const tx = await pool.connect();
  try {
    await tx.query('begin');
    await tx.query('insert into effects (run_id, attempt, worker) values ($1, $2, $3)', [
      run.run_id,
      run.attempt_number,
      id,
    ]);
    await ctx.completeIn(tx, { by: id });
    if (first && befalls === 'dies_before_commit') await die();
    if (first && befalls === 'freezes') {
      process.stdout.write('in the transaction\n');
      await sleep(10_000);
    }
    await tx.query('commit');
    process.stdout.write(`committed ${run.run_id}\n`);
    if (befalls === 'dies_after_commit') await die();
  } catch (error) {
    process.stdout.write(`refused ${(error as Error).message}\n`);
    await tx.query('rollback').catch(() => {});
    throw error;
  } finally {
    tx.release();
  }
};

const worker = new Worker({ url, id, slots: 2, handlers: { effect } });
await worker.start();
process.stdout.write('worker ready\n');

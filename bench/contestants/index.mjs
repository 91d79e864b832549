// Who takes part. Each contestant is one value:
//   name, title, store ('postgres' or 'redis'), ours
//   install(place)                 makes an empty store ready (peers)
//   openProducer(place)            submits through the peer's own library → { submit, submitMany, close }
//   openWorker(place, onStart)     one worker process → { close }; onStart(payload) when a job starts
//   stored(place)                  how many jobs the store holds, of whatever state
//   unsettled(place)               whether a job is not settled yet
// A place says where: databaseUrl, redisPort, and url of our server; and what it is tuned for.
import { bullmq } from './bullmq.mjs';
import { graphile } from './graphile.mjs';
import { pgboss } from './pgboss.mjs';
import { punctual } from './punctual.mjs';

export const contestants = { punctual, bullmq, pgboss, graphile };

// Workers at the door: the list, the order to end, and the one call they speak.
import { PunctualError, twoPartType, workerRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import { drainWorker } from '../dispatch/drain.ts';
import { listWorkers } from '../store/workers.ts';
import { RawText, register } from './register.ts';
import type { ApiParts } from './server.ts';

export function registerWorkers(app: FastifyInstance, { db, sync, announcer, keyring }: ApiParts): void {
  register(app, workerRoutes.listWorkers, async () => ({ workers: await listWorkers(db) }));

  register(app, workerRoutes.drainWorker, async ({ params: { worker_id } }) => ({
    worker_id,
    told: await drainWorker({ db, sync, announcer }, worker_id),
  }));

  register(app, workerRoutes.syncWorker, async ({ params, body, caller, request, reply }) => {
    const closed = new AbortController();
    const onClose = (): void => {
      if (!reply.raw.writableFinished) closed.abort();
    };
    request.raw.socket.once('close', onClose);
    // A worker whose key is revoked while it waits gets nothing more.
    const entitled = keyring.watch(caller);
    entitled.signal.addEventListener('abort', () => closed.abort());
    try {
      const parts = request.headers.accept?.includes(twoPartType) === true ? 2 : 1;
      const answer = await sync.call(params.worker_id, body, {
        closed: closed.signal,
        parts,
        onApplied: request.letGo,
      });
      if (entitled.signal.aborted) throw new PunctualError('key_invalid');
      return parts === 1 ? new RawText(answer) : new RawText(answer, twoPartType);
    } finally {
      entitled.forget();
      request.raw.socket.off('close', onClose);
    }
  });
}

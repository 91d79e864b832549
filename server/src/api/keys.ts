// API keys and sessions of the dashboard at the door.
import { type CreateKey, keyRoutes, PunctualError, type Session, sessionRoutes } from '@punctual/contract';
import type { FastifyInstance } from 'fastify';
import type { Caller } from '../access/caller.ts';
import { createKey, createSession, deleteSession, getKey, listKeys, revokeKey, rotateKey } from '../store/keys.ts';
import { audited, record } from './audited.ts';
import { setSession } from './cookies.ts';
import { register } from './register.ts';
import type { ApiParts } from './server.ts';

/** A working day, and a little more. */
const sessionHours = 12;

export function registerKeys(app: FastifyInstance, { db, keyring, keysChanged }: ApiParts): void {
  const missing = (id: string): PunctualError =>
    new PunctualError('key_not_found', { detail: `No API key has the id ${id}.` });

  register(app, keyRoutes.createKey, async ({ body, caller, request }) => {
    requireFitting(body);
    const key = await audited(db, request, { id: ({ key_id }: { key_id: string }) => key_id }, (tx) =>
      createKey(tx, body, caller.key_id ?? caller.name),
    );
    await keysChanged();
    return key;
  });

  register(app, keyRoutes.listKeys, async () => ({ keys: await listKeys(db) }));

  register(app, keyRoutes.getKey, async ({ params: { key_id } }) => {
    const key = await getKey(db, key_id);
    if (key === null) throw missing(key_id);
    return key;
  });

  register(app, keyRoutes.revokeKey, async ({ params: { key_id }, request }) => {
    const look = { id: key_id, look: (tx: Parameters<typeof getKey>[0]) => getKey(tx, key_id) };
    const key = await audited(db, request, look, async (tx) => {
      const revoked = await revokeKey(tx, key_id);
      if (revoked === null) throw missing(key_id);
      return revoked;
    });
    await keysChanged();
    return key;
  });

  register(app, keyRoutes.rotateKey, async ({ params: { key_id }, body, request }) => {
    const look = { id: key_id, look: (tx: Parameters<typeof getKey>[0]) => getKey(tx, key_id) };
    const key = await audited(db, request, look, async (tx) => {
      const rotated = await rotateKey(tx, key_id, body.overlap_seconds ?? 0);
      if (rotated === null) throw missing(key_id);
      if (rotated === 'ended') throw new PunctualError('key_ended');
      return rotated;
    });
    await keysChanged();
    return key;
  });

  register(app, sessionRoutes.createSession, async ({ body, request, reply }) => {
    const caller = await keyring.find('key', body.key.trim(), request.ip);
    if (caller === null) throw new PunctualError('key_invalid');
    // A key that only this server knows opens no session: others would not know it.
    if (caller.key_id === null) throw new PunctualError('key_invalid');
    const { secret, expires_at } = await createSession(db, caller.key_id, sessionHours);
    setSession(request, reply, secret, sessionHours * 3600);
    request.caller = caller;
    const session = toSession({ ...caller, expires_at: expires_at.toISOString() });
    await record(db, request, { id: caller.key_id, before: null, after: session });
    return session;
  });

  register(app, sessionRoutes.getSession, async ({ caller }) => toSession(caller));

  register(app, sessionRoutes.deleteSession, async ({ caller: { secret, key_id }, request, reply }) => {
    setSession(request, reply, null, 0);
    const ended = secret?.kind === 'session' && (await deleteSession(db, secret.hash));
    if (ended) await keysChanged();
    await record(db, request, { id: key_id ?? '', before: null, after: { ended } });
    return { ended };
  });
}

function toSession({ key_id, name, role, user_id, expires_at }: Caller): Session {
  return { key_id, name, role, user_id, expires_at };
}

function requireFitting({ role, user_id, rate_per_second, rate_burst, expires_at }: CreateKey): void {
  const wrong =
    user_id !== undefined && (role === 'admin' || role === 'worker')
      ? { path: 'user_id', message: `must be left out for the role ${role}, which is for all users` }
      : rate_burst !== undefined && rate_per_second === undefined
        ? { path: 'rate_burst', message: 'goes with rate_per_second only' }
        : expires_at !== undefined && Number.isNaN(Date.parse(expires_at))
          ? { path: 'expires_at', message: 'is not a date that exists' }
          : null;
  if (wrong !== null)
    throw new PunctualError('invalid_input', { detail: `${wrong.path} ${wrong.message}`, errors: [wrong] });
}

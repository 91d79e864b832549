// A house that asks for keys, with a key for each role and owner; and requests as plain as they are on the wire.
import type { CreateKey, Role } from '@punctual/contract';
import { Client } from '@punctual/sdk';
import { type House, type HouseOptions, openHouse } from './house.ts';

export interface LockedHouse {
  house: House;
  /** The first key, which the first server made. */
  admin: string;
  client: Client;
  makeKey: (role: Role, more?: Partial<CreateKey>) => Promise<{ key_id: string; secret: string }>;
}

export async function openLockedHouse(options: HouseOptions = {}): Promise<LockedHouse & AsyncDisposable> {
  const house = await openHouse({ ...options, config: { ...options.config, auth: 'on' } });
  const admin = house.servers[0]?.firstKey ?? '';
  const client = new Client({ url: house.url, apiKey: admin });
  return {
    house,
    admin,
    client,
    makeKey: (role, more = {}) => client.keys.create({ name: `a ${role}`, role, ...more }),
    async [Symbol.asyncDispose]() {
      client.close();
      await house[Symbol.asyncDispose]();
    },
  };
}

export interface Answered {
  status: number;
  code: string | undefined;
  body: Record<string, unknown>;
  headers: Headers;
}

export interface Asking {
  method?: string;
  key?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
}

export async function ask(url: string, { method = 'GET', key, body, headers = {} }: Asking = {}): Promise<Answered> {
  const response = await fetch(url, {
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = /json/.test(response.headers.get('content-type') ?? '');
  const parsed = (isJson ? JSON.parse(text) : {}) as Record<string, unknown>;
  return {
    status: response.status,
    code: parsed['code'] as string | undefined,
    body: parsed,
    headers: response.headers,
  };
}

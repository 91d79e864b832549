// The calls about how long history is kept, as `client.retention`.
import type { GateKind, SetRetention } from '@punctual/contract';
import { routes } from '@punctual/contract/plain';
import type { Call } from './client.ts';

export function retentionCalls(call: Call) {
  return {
    /** What holds for the installation, and the rules of queues and types. */
    list: () => call(routes.listRetention, {}),
    /** Sets the whole rule of a queue or a type; what is left out is as for the installation. */
    set: (kind: GateKind, name: string, body: SetRetention) =>
      call(routes.setRetention, { params: { kind, name }, body }),
    delete: (kind: GateKind, name: string) => call(routes.deleteRetention, { params: { kind, name } }),
  };
}

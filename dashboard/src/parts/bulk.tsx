// What can be done to all that were chosen in a table: each on its own, a few at a time, and what was refused is told.
import { useState } from 'react';
import { type Operation } from '../session.ts';
import { useConfirm } from './dialog.tsx';
import { May } from './may.tsx';

interface Verb {
  verb: string;
  /** Offered to those who may make it. */
  call: Operation;
  act: (id: string) => Promise<unknown>;
  danger?: boolean;
}

const atOnce = 5;

export function BulkBar(props: { ids: ReadonlySet<string>; noun: string; verbs: readonly Verb[]; onDone: () => void }) {
  const { ids, noun, verbs, onDone } = props;
  const { ask, dialog } = useConfirm();
  const [said, setSaid] = useState('');
  const count = `${ids.size.toLocaleString()} ${noun}${ids.size === 1 ? '' : 's'}`;
  const question = ({ verb, act, danger = false }: Verb) =>
    ask({
      title: `${verb}: ${count}`,
      text: 'Each is done on its own; those that cannot be are left as they are.',
      verb,
      danger,
      act: async () => {
        const refused = await doAll([...ids], act);
        setSaid(
          refused.length === 0 ? `${verb}: ${count}.` : `${verb}: ${refused.length} of ${count} refused. ${refused[0]}`,
        );
        onDone();
      },
    });
  return (
    <div className={ids.size === 0 ? 'bulk-bar idle' : 'bulk-bar'} role="status">
      {ids.size > 0 && (
        <>
          <span>{count} chosen</span>
          <div className="actions">
            {verbs.map((verb) => (
              <May key={verb.verb} call={verb.call}>
                <button
                  type="button"
                  className={verb.danger === true ? 'plain danger' : 'plain'}
                  onClick={() => question(verb)}
                >
                  {verb.verb}
                </button>
              </May>
            ))}
            <button type="button" className="link" onClick={onDone}>
              Choose none
            </button>
          </div>
        </>
      )}
      {ids.size === 0 && said}
      {dialog}
    </div>
  );
}

/** The words of those that were refused. */
async function doAll(ids: string[], act: (id: string) => Promise<unknown>): Promise<string[]> {
  const refused: string[] = [];
  const next = async (): Promise<void> => {
    for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
      try {
        await act(id);
      } catch (error) {
        refused.push((error as Error).message);
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, next));
  return refused;
}

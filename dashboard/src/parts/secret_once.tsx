// A secret that the server tells once. It stands outside of the pages, because the first key of an open server signs
// everybody out: whoever made it must still be able to read it.
import { useSyncExternalStore } from 'react';
import { createStore } from '../live.ts';
import { Modal } from './dialog.tsx';
import { Command } from './empty.tsx';

interface Secret {
  title: string;
  /** What it is for. */
  text: string;
  secret: string;
}

const shown = createStore<Secret | undefined>(undefined);

export const showSecret = (secret: Secret): void => shown.set(secret);

export function SecretOnce() {
  const told = useSyncExternalStore(shown.subscribe, shown.get);
  if (told === undefined) return null;
  const done = () => shown.set(undefined);
  return (
    <Modal title={told.title} onClose={done} stays>
      <p>{told.text} It is shown now and never again.</p>
      <Command text={told.secret} />
      <div className="actions end">
        <button type="button" onClick={done}>
          I have kept it
        </button>
      </div>
    </Modal>
  );
}

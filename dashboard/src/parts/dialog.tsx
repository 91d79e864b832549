// Dialogs: a modal one with anything in it, and the question that goes before what cannot be undone.
import { type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { ProblemNote } from './problem.tsx';

interface ModalProps {
  title: string;
  onClose: () => void;
  /** Only a button closes it: what it shows is shown once. */
  stays?: boolean;
  children: ReactNode;
}

export function Modal({ title, onClose, stays = false, children }: ModalProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const shown = dialog.current;
    if (shown !== null && !shown.open) shown.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onClose={onClose}
      onCancel={(event) => stays && event.preventDefault()}
      // A click on the dialog itself is one beside what it holds.
      onClick={(event) => event.target === dialog.current && !stays && onClose()}
    >
      <div className="dialog">
        <div className="heading">
          <h2 id={id}>{title}</h2>
          {!stays && (
            <button type="button" className="plain" onClick={onClose}>
              Close
            </button>
          )}
        </div>
        {children}
      </div>
    </dialog>
  );
}

export interface Question {
  title: string;
  /** What will happen, in a sentence or two. */
  text: ReactNode;
  /** On the button: the verb. */
  verb: string;
  danger?: boolean;
  /** A text that goes with it, such as the reason. */
  note?: { label: string; placeholder?: string };
  act: (note: string) => Promise<unknown>;
}

/** Asks, then acts; what goes wrong is told in the dialog, which stays open. */
export function Confirm({ question, onClose }: { question: Question; onClose: () => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const [note, setNote] = useState('');
  const id = useId();
  const act = async () => {
    setBusy(true);
    try {
      await question.act(note.trim());
      onClose();
    } catch (cause) {
      setError(cause as Error);
      setBusy(false);
    }
  };
  return (
    <Modal title={question.title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void act();
        }}
      >
        <div>{question.text}</div>
        {question.note !== undefined && (
          <>
            <label htmlFor={id}>{question.note.label}</label>
            <input
              id={id}
              value={note}
              maxLength={200}
              placeholder={question.note.placeholder}
              onChange={(event) => setNote(event.target.value)}
            />
          </>
        )}
        {error !== undefined && <ProblemNote error={error} />}
        <div className="actions end">
          <button type="button" className="plain" onClick={onClose}>
            Back
          </button>
          <button type="submit" className={question.danger === true ? 'danger' : undefined} disabled={busy}>
            {question.verb}
          </button>
        </div>
      </form>
    </Modal>
  );
}

/** `ask(question)` opens the dialog; put `dialog` somewhere in the page. */
export function useConfirm(): { ask: (question: Question) => void; dialog: ReactNode } {
  const [question, setQuestion] = useState<Question>();
  return {
    ask: setQuestion,
    dialog: question === undefined ? null : <Confirm question={question} onClose={() => setQuestion(undefined)} />,
  };
}

// A dialog that changes something: a few fields and one button. What the server has against a field is shown at the field,
// and the dialog stays open. Values are texts; the page turns them into what the call needs (`wholeNumber`, `orNull`).
import { type FormEvent, type ReactNode, useState } from 'react';
import { Modal } from './dialog.tsx';
import { CheckField, fieldErrors, SelectField, TextField } from './form.tsx';
import { ProblemNote } from './problem.tsx';

export interface EditorField {
  /** As the API names it, so that errors find their field. */
  path: string;
  label: string;
  value: string;
  hint?: string;
  placeholder?: string;
  required?: boolean;
  kind?: 'text' | 'number' | 'password' | 'datetime-local';
  step?: string;
  options?: readonly (readonly [value: string, words: string])[];
  /** Several of the options: the value is theirs with commas between them. */
  several?: boolean;
}

export interface Edit {
  title: string;
  text?: ReactNode;
  fields: readonly EditorField[];
  verb: string;
  danger?: boolean;
  save: (values: Record<string, string>) => Promise<unknown>;
}

/** `edit(…)` opens the dialog; put `editor` somewhere in the page. */
export function useEditor(): { edit: (edit: Edit) => void; editor: ReactNode } {
  const [edit, setEdit] = useState<Edit>();
  return {
    edit: setEdit,
    editor: edit === undefined ? null : <Editor edit={edit} onClose={() => setEdit(undefined)} />,
  };
}

function Editor({ edit, onClose }: { edit: Edit; onClose: () => void }) {
  const [values, setValues] = useState(() => Object.fromEntries(edit.fields.map(({ path, value }) => [path, value])));
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error>();
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await edit.save(values);
      onClose();
    } catch (cause) {
      setError(cause as Error);
      setBusy(false);
    }
  };
  return (
    <Modal title={edit.title} onClose={onClose}>
      <form onSubmit={(event) => void save(event)}>
        {edit.text !== undefined && <div>{edit.text}</div>}
        {edit.fields.map((field) => (
          <One
            key={field.path}
            field={field}
            value={values[field.path] ?? ''}
            errors={fieldErrors(error)}
            onChange={(value) => setValues({ ...values, [field.path]: value })}
          />
        ))}
        {error !== undefined && <ProblemNote error={error} />}
        <div className="actions end">
          <button type="button" className="plain" onClick={onClose}>
            Back
          </button>
          <button type="submit" className={edit.danger === true ? 'danger' : undefined} disabled={busy}>
            {edit.verb}
          </button>
        </div>
      </form>
    </Modal>
  );
}

interface OneProps {
  field: EditorField;
  value: string;
  errors: ReturnType<typeof fieldErrors>;
  onChange: (value: string) => void;
}

function One({ field, value, errors, onChange }: OneProps) {
  const { path, label, hint, options, kind = 'text', placeholder, required, step = 'any' } = field;
  const shared = { path, label, value, errors, onChange, ...(hint === undefined ? {} : { hint }) };
  if (options !== undefined && field.several === true) return <Several {...shared} options={options} />;
  if (options !== undefined) return <SelectField {...shared} options={options} />;
  return (
    <TextField
      {...shared}
      type={kind}
      placeholder={placeholder}
      required={required === true}
      {...(kind === 'number' ? { step, inputMode: 'decimal' as const } : {})}
      {...(kind === 'password' ? { autoComplete: 'new-password', spellCheck: false } : {})}
    />
  );
}

interface SeveralProps extends Omit<OneProps, 'field'> {
  path: string;
  label: string;
  hint?: string;
  options: readonly (readonly [value: string, words: string])[];
}

function Several({ path, label, hint, value, errors, onChange, options }: SeveralProps) {
  const chosen = new Set(value.split(',').filter((one) => one !== ''));
  const toggle = (option: string, on: boolean) =>
    onChange(
      options
        .map(([one]) => one)
        .filter((one) => (one === option ? on : chosen.has(one)))
        .join(),
    );
  return (
    <fieldset className="bare checks">
      <legend>{label}</legend>
      {options.map(([option, words]) => (
        <CheckField key={option} label={words} checked={chosen.has(option)} onChange={(on) => toggle(option, on)} />
      ))}
      {errors
        .filter((error) => error.path === path || error.path.startsWith(`${path}[`))
        .map(({ message }) => (
          <p key={message} className="field-error">
            {message}
          </p>
        ))}
      {hint !== undefined && <p className="hint">{hint}</p>}
    </fieldset>
  );
}

export const orNull = (text: string | undefined): string | null =>
  text === undefined || text.trim() === '' ? null : text.trim();

export const wholeNumber = (text: string | undefined): number | null => {
  const given = orNull(text);
  return given === null ? null : Number(given);
};

/** `{ note }` when there is one: calls refuse empty texts. */
export const noteOf = (text: string | undefined): { note?: string } => {
  const note = orNull(text);
  return note === null ? {} : { note };
};

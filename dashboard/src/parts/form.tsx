// The parts of forms. Each field shows its label, a hint, and what the server or the page has against it, at its place.
// `errors` are the field errors of the last answer; a field takes those of its own path and of paths below it.
import type { FieldError } from '@punctual/contract';
import { type InputHTMLAttributes, type ReactNode, useId } from 'react';
import { ApiProblem } from '../api.ts';

interface Common {
  label: string;
  /** The path of the field as the API names it. */
  path: string;
  hint?: ReactNode;
  errors?: readonly FieldError[] | undefined;
}

interface Parts extends Common {
  children: (props: { id: string; 'aria-invalid': boolean; 'aria-describedby': string | undefined }) => ReactNode;
}

/** A label, something to fill in, and what is wrong with it. */
export function Field({ label, path, hint, errors = [], children }: Parts) {
  const id = useId();
  const own = errorsOf(errors, path);
  const said = own.length > 0 || hint !== undefined;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, 'aria-invalid': own.length > 0, 'aria-describedby': said ? `${id}-about` : undefined })}
      {said && (
        <div id={`${id}-about`}>
          {own.map((error) => (
            <p className="field-error" key={error.message}>
              {error.path !== path && <code>{error.path}</code>} {error.message}
            </p>
          ))}
          {hint !== undefined && <p className="hint">{hint}</p>}
        </div>
      )}
    </div>
  );
}

type InputProps = Omit<InputHTMLAttributes<HTMLInputElement>, 'onChange' | 'value' | 'list'>;

interface TextProps extends Common, InputProps {
  value: string;
  onChange: (value: string) => void;
  /** Values to choose from, which others remain beside. */
  choices?: readonly string[];
}

export function TextField({ label, path, hint, errors, value, onChange, choices, ...input }: TextProps) {
  const list = useId();
  return (
    <Field {...{ label, path, hint, errors }}>
      {(props) => (
        <>
          <input
            {...input}
            {...props}
            value={value}
            list={choices === undefined ? undefined : list}
            onChange={(event) => onChange(event.target.value)}
          />
          {choices !== undefined && (
            <datalist id={list}>
              {choices.map((choice) => (
                <option key={choice} value={choice} />
              ))}
            </datalist>
          )}
        </>
      )}
    </Field>
  );
}

interface SelectProps extends Common {
  value: string;
  onChange: (value: string) => void;
  options: readonly (readonly [value: string, words: string])[];
}

export function SelectField({ label, path, hint, errors, value, onChange, options }: SelectProps) {
  return (
    <Field {...{ label, path, hint, errors }}>
      {(props) => (
        <select {...props} value={value} onChange={(event) => onChange(event.target.value)}>
          {options.map(([option, words]) => (
            <option key={option} value={option}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function CheckField({
  label,
  checked,
  onChange,
}: {
  label: ReactNode;
  checked: boolean;
  onChange: (checked: boolean) => void;
}) {
  return (
    <label className="check">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.target.checked)} />
      {label}
    </label>
  );
}

/** One of a few, as buttons side by side. */
export function Choice({
  label,
  value,
  onChange,
  options,
}: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  options: readonly (readonly [value: string, words: string])[];
}) {
  const name = useId();
  return (
    <fieldset className="choice">
      <legend>{label}</legend>
      {options.map(([option, words]) => (
        <label key={option}>
          <input type="radio" name={name} checked={option === value} onChange={() => onChange(option)} />
          <span>{words}</span>
        </label>
      ))}
    </fieldset>
  );
}

function errorsOf(errors: readonly FieldError[], path: string): FieldError[] {
  return errors.filter((error) => isWithin(error.path, path));
}

function isWithin(path: string, field: string): boolean {
  return path === field || path.startsWith(`${field}.`) || path.startsWith(`${field}[`);
}

/** What an answer says about fields; those that no field of the form shows are for the note above it. */
export function fieldErrors(error: Error | undefined): FieldError[] {
  return error instanceof ApiProblem ? (error.problem.errors ?? []) : [];
}

export function unplaced(errors: readonly FieldError[], paths: readonly string[]): FieldError[] {
  return errors.filter((error) => !paths.some((path) => isWithin(error.path, path)));
}

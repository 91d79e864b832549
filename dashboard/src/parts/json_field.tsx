// JSON to write: checked with each key, and the place of the error is said and can be jumped to.
import type { FieldError } from '@punctual/contract';
import { useRef } from 'react';
import { Field } from './form.tsx';
import { type JsonFault, readJson } from './json_text.ts';

interface Props {
  label: string;
  path: string;
  value: string;
  onChange: (value: string) => void;
  hint?: string;
  rows?: number;
  errors?: readonly FieldError[] | undefined;
}

export function JsonField({ label, path, value, onChange, hint, rows = 8, errors = [] }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const { fault } = readJson(value);
  const jump = (at: JsonFault) => {
    area.current?.focus();
    area.current?.setSelectionRange(at.offset, at.offset + 1);
  };
  return (
    <Field label={label} path={path} errors={errors} hint={fault === undefined ? hint : undefined}>
      {(props) => (
        <>
          <textarea
            {...props}
            aria-invalid={props['aria-invalid'] || fault !== undefined}
            ref={area}
            value={value}
            rows={rows}
            spellCheck={false}
            autoCapitalize="off"
            onChange={(event) => onChange(event.target.value)}
          />
          {fault !== undefined && (
            <p className="field-error" role="status">
              Line {fault.line}, column {fault.column}: {fault.message}{' '}
              <button type="button" className="link" onClick={() => jump(fault)}>
                Go there
              </button>
            </p>
          )}
        </>
      )}
    </Field>
  );
}

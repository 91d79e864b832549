// The fields of what runs a job: a call of a URL, a program, an artifact. They are fixed once the job is created.
import type { FieldError } from '@punctual/contract';
import { programLimits } from './executor_draft.ts';
import { Field, SelectField, TextField } from './form.tsx';
import { JsonField } from './json_field.tsx';

/** What a field of the form needs to know, by its path. */
export type Text = (path: string) => {
  path: string;
  value: string;
  errors: readonly FieldError[];
  onChange: (value: string) => void;
};

export function ExecutorFields({ kind, text, fixed }: { kind: string; text: Text; fixed: boolean }) {
  if (kind === 'handler') return null;
  return (
    <fieldset className="bare" disabled={fixed}>
      {kind === 'http' && <HttpFields text={text} />}
      {kind === 'shell' && (
        <LinesField
          label="Command"
          rows={3}
          hint="The program and its arguments, one a line; no shell interprets them"
          placeholder={'backup\n--all'}
          {...text('executor.command')}
        />
      )}
      {kind === 'binary' && <BinaryFields text={text} />}
      {kind !== 'http' && <ProgramFields text={text} />}
    </fieldset>
  );
}

const methods = ['POST', 'GET', 'PUT', 'PATCH', 'DELETE', 'HEAD'].map((method) => [method, method] as const);

function HttpFields({ text }: { text: Text }) {
  return (
    <>
      <div className="field-row">
        <TextField label="URL" type="url" placeholder="https://example.com/hook" {...text('executor.url')} />
        <SelectField label="Method" options={methods} {...text('executor.method')} />
        <TextField
          label="Expected statuses"
          placeholder="every 2xx"
          inputMode="numeric"
          hint="Success is one of these: 200, 404"
          {...text('executor.expect')}
        />
      </div>
      <JsonField label="Headers" rows={3} {...text('executor.headers')} hint='{"authorization": "…"}' />
      <JsonField
        label="Body"
        rows={4}
        {...text('executor.body')}
        hint="Sent instead of the payload; {{payload.a.b}} stands for that part of it. Empty: the payload"
      />
    </>
  );
}

function BinaryFields({ text }: { text: Text }) {
  return (
    <>
      <TextField
        label="Artifact"
        spellCheck={false}
        hint="The sha256 of a file that was uploaded"
        {...text('executor.sha256')}
      />
      <LinesField label="Arguments" rows={2} hint="One a line" {...text('executor.args')} />
    </>
  );
}

const sandboxes = [
  ['', 'the network of its worker'],
  ['no_network', 'no network'],
] as const;

function ProgramFields({ text }: { text: Text }) {
  return (
    <>
      <LinesField
        label="Environment"
        rows={3}
        hint="NAME=value, one a line; {{secret:NAME}} stands for what only the worker knows"
        placeholder={'MODE=full\nTOKEN={{secret:BACKUP_TOKEN}}'}
        {...text('executor.env')}
      />
      <div className="field-row">
        <TextField label="Folder" placeholder="one of its own" {...text('executor.cwd')} />
        <TextField
          label="Fatal exit codes"
          placeholder="64"
          inputMode="numeric"
          hint="Not tried again after these"
          {...text('executor.fatal_exit_codes')}
        />
        <SelectField label="It reaches" options={sandboxes} {...text('executor.sandbox')} />
      </div>
      <fieldset className="group-of-fields">
        <legend>It may use at most</legend>
        <div className="field-row">
          {programLimits.map(([name, label]) => (
            <TextField
              key={name}
              label={label}
              inputMode="numeric"
              placeholder="as its worker"
              {...text(`executor.limits.${name}`)}
            />
          ))}
        </div>
      </fieldset>
    </>
  );
}

interface LinesProps extends ReturnType<Text> {
  label: string;
  rows: number;
  hint: string;
  placeholder?: string;
  disabled?: boolean;
}

/** Several lines, each of which means something. */
export function LinesField({ label, path, errors, hint, value, onChange, ...area }: LinesProps) {
  return (
    <Field {...{ label, path, errors, hint }}>
      {(props) => (
        <textarea
          {...area}
          {...props}
          spellCheck={false}
          autoCapitalize="off"
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </Field>
  );
}

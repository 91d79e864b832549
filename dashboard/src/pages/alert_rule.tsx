// One alert rule to read and change, at #/alerts/rules/{name}, or a new one at #/alerts/new-rule.
import type { AlertGroupBy, AlertKind, AlertRule } from '@punctual/contract';
import { type FormEvent, useState } from 'react';
import { getAlertRule, listChannels, putAlertRule } from '../api_alerts.ts';
import { useLive } from '../live.ts';
import { JsonBlock } from '../parts/bits.tsx';
import { CheckField, fieldErrors, SelectField, TextField } from '../parts/form.tsx';
import { useOnce } from '../parts/once.ts';
import { Pending, ProblemNote } from '../parts/problem.tsx';
import {
  draftOf,
  groupWords,
  newDraft,
  type RuleDraft,
  ruleKinds,
  ruleOf,
  scopeWords,
  tellFields,
} from '../parts/rule_draft.ts';
import { to } from '../place.ts';
import type { PageProps } from '../routes.tsx';
import { useMay } from '../session.ts';

const Back = () => (
  <p className="back">
    <a href={to('alerts', 'rules')}>← All rules</a>
  </p>
);

export function NewAlertRulePage() {
  return (
    <section>
      <Back />
      <h1>New alert rule</h1>
      <RuleForm />
    </section>
  );
}

export function AlertRulePage({ params }: PageProps) {
  const name = params['name'] ?? '';
  const operates = useMay('putAlertRule');
  // Not kept fresh: it would change under the hands of whoever edits it.
  const [saved, setSaved] = useState(false);
  const { data, error, again } = useOnce(`alert rule ${name}`, (signal) => getAlertRule(name, signal));
  const saveDone = () => {
    setSaved(true);
    again();
  };
  return (
    <section>
      <Back />
      <div className="heading">
        <h1>{name}</h1>
        <span role="status" className="created">
          {saved && 'Saved.'}
        </span>
      </div>
      {data === undefined ? (
        <Pending error={error} />
      ) : (
        <>
          <p className="rule-words">
            Fires when {data.wording}. <a href={to('alerts', { rule: name })}>See its alerts</a>
          </p>
          {data.error !== null && <p className="warning">The last check failed: {data.error}</p>}
          {operates ? (
            <RuleForm key={data.updated_at} rule={data} onSaved={saveDone} />
          ) : (
            <JsonBlock title="Definition" value={data.definition} />
          )}
        </>
      )}
    </section>
  );
}

function RuleForm({ rule, onSaved }: { rule?: AlertRule; onSaved?: () => void }) {
  const [name, setName] = useState('');
  const [draft, setDraft] = useState<RuleDraft>(rule === undefined ? newDraft : draftOf(rule.definition));
  const [error, setError] = useState<Error>();
  const [wrong, setWrong] = useState<ReturnType<typeof ruleOf>['wrong']>([]);
  const [busy, setBusy] = useState(false);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    const read = ruleOf(draft);
    setWrong(read.wrong);
    setError(undefined);
    if (read.wrong.length > 0) return;
    setBusy(true);
    try {
      await putAlertRule(rule?.name ?? name.trim(), read.rule);
      if (onSaved === undefined) location.hash = to('alerts', 'rules');
      else onSaved();
    } catch (cause) {
      setError(cause as Error);
    }
    setBusy(false);
  };
  const errors = [...wrong, ...fieldErrors(error)];
  return (
    <form className="card rule-form" onSubmit={(event) => void save(event)}>
      {rule === undefined && (
        <TextField label="Name" path="name" value={name} onChange={setName} errors={errors} required />
      )}
      <RuleFields draft={draft} errors={errors} onChange={setDraft} />
      <Channels draft={draft} onChange={setDraft} />
      {error !== undefined && <ProblemNote error={error} />}
      <div className="actions">
        <button type="submit" disabled={busy}>
          {rule === undefined ? 'Create' : 'Save'}
        </button>
        {rule !== undefined && <span className="faint">A rule that is saved begins to count anew.</span>}
      </div>
    </form>
  );
}

interface FieldsProps {
  draft: RuleDraft;
  errors: ReturnType<typeof fieldErrors>;
  onChange: (draft: RuleDraft) => void;
}

function RuleFields({ draft, errors, onChange }: FieldsProps) {
  const { fields, scopes, groups } = ruleKinds[draft.kind];
  const text = (path: string, label: string, more: { hint?: string; placeholder?: string } = {}) => (
    <TextField
      key={path}
      label={label}
      path={path}
      value={draft.texts[path] ?? ''}
      onChange={(value) => onChange({ ...draft, texts: { ...draft.texts, [path]: value } })}
      errors={errors}
      {...more}
    />
  );
  const one = ({ path, label, hint, placeholder }: (typeof tellFields)[number]) =>
    text(path, label, {
      ...(hint === undefined ? {} : { hint }),
      ...(placeholder === undefined ? {} : { placeholder }),
    });
  return (
    <>
      <div className="field-row">
        <SelectField
          label="Fires when"
          path="kind"
          value={draft.kind}
          onChange={(kind) => onChange({ ...draft, kind: kind as AlertKind })}
          errors={errors}
          options={Object.entries(ruleKinds).map(([kind, { words }]) => [kind, words])}
        />
        {fields.map(one)}
      </div>
      <fieldset className="group-of-fields">
        <legend>Only of</legend>
        <div className="field-row">{scopes.map((scope) => text(scope, scopeWords[scope]))}</div>
      </fieldset>
      <fieldset className="group-of-fields">
        <legend>Telling</legend>
        <div className="field-row">
          {groups.length > 1 && (
            <SelectField
              label="An alert for"
              path="group_by"
              value={groupOf(draft, groups)}
              onChange={(group_by) => onChange({ ...draft, texts: { ...draft.texts, group_by } })}
              errors={errors}
              options={groups.map((group) => [group, groupWords[group]])}
            />
          )}
          {tellFields.map(one)}
        </div>
      </fieldset>
      {text('note', 'What to do about it', { placeholder: 'see the runbook: start more workers' })}
      <CheckField
        label="Tell also when it is over"
        checked={draft.notify_resolved}
        onChange={(notify_resolved) => onChange({ ...draft, notify_resolved })}
      />
      <CheckField label="Enabled" checked={draft.enabled} onChange={(enabled) => onChange({ ...draft, enabled })} />
    </>
  );
}

/** What is chosen, as far as this kind has it. */
function groupOf({ texts }: RuleDraft, groups: readonly AlertGroupBy[]): string {
  const chosen = groups.find((group) => group === texts['group_by']);
  return chosen ?? groups[0] ?? 'rule';
}

function Channels({ draft, onChange }: Pick<FieldsProps, 'draft' | 'onChange'>) {
  const { data } = useLive('channels', listChannels);
  const names = [...new Set([...(data?.channels ?? []).map(({ name }) => name), ...draft.channels])];
  const toggle = (name: string, on: boolean) =>
    onChange({ ...draft, channels: on ? [...draft.channels, name] : draft.channels.filter((other) => other !== name) });
  return (
    <fieldset className="group-of-fields">
      <legend>Who is told</legend>
      <div className="field-row">
        {names.map((name) => (
          <CheckField
            key={name}
            label={name}
            checked={draft.channels.includes(name)}
            onChange={(on) => toggle(name, on)}
          />
        ))}
      </div>
      {names.length === 0 && (
        <p className="hint">
          Nobody: there is no channel yet. <a href={to('alerts', 'channels')}>Set one up</a>; the alert is shown here
          all the same.
        </p>
      )}
    </fieldset>
  );
}

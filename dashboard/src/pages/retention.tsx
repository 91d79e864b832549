// How long history is kept and how the server is set up, at #/retention: rules for queues and types can be changed, the
// settings are those of the environment and only shown.
import type { GateKind, RetentionPolicy, RetentionRule, Setting } from '@punctual/contract';
import { deleteRetention, getSettings, listRetention, setRetention } from '../api_care.ts';
import { useLive } from '../live.ts';
import { count, Fact, None, whole } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { noteOf, useEditor, wholeNumber } from '../parts/editor.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { QueueLink } from '../parts/links.tsx';
import { useOnce } from '../parts/once.ts';
import { Pending } from '../parts/problem.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';
import './retention.css';
import { May } from '../parts/may.tsx';

export function RetentionPage() {
  const { data, error, refresh } = useLive('retention', listRetention);
  const { ask, dialog } = useConfirm();
  const { edit, editor } = useEditor();
  const change = (rule: RetentionRule | undefined) =>
    edit({
      title: rule === undefined ? 'Keep a queue or a type longer or shorter' : `Keep the ${rule.kind} ${rule.name}`,
      text: 'What is older is removed within some hours and cannot be brought back. Dead letters and what has not ended are never removed.',
      fields: [
        ...(rule === undefined
          ? [
              {
                path: 'kind',
                label: 'Of',
                value: 'type',
                options: [
                  ['type', 'a type'],
                  ['queue', 'a queue'],
                ] as const,
              },
              { path: 'name', label: 'Name', value: '', required: true },
            ]
          : []),
        days('runs_days', 'Ended runs, in days', rule?.runs_days ?? null),
        days('logs_days', 'Log lines, in days', rule?.logs_days ?? null),
        { path: 'note', label: 'Why', value: rule?.note ?? '', placeholder: 'for those who come later' },
      ],
      verb: 'Save',
      danger: true,
      save: (values) => {
        const runs_days = wholeNumber(values['runs_days']);
        const logs_days = wholeNumber(values['logs_days']);
        return setRetention((rule?.kind ?? values['kind']) as GateKind, rule?.name ?? values['name'] ?? '', {
          ...(runs_days === null ? {} : { runs_days }),
          ...(logs_days === null ? {} : { logs_days }),
          ...noteOf(values['note']),
        }).then(refresh);
      },
    });
  const remove = ({ kind, name }: RetentionRule) =>
    ask({
      title: `Keep the ${kind} ${name} as everything else?`,
      text: 'What is older than the installation keeps is then removed and cannot be brought back.',
      verb: 'Remove the rule',
      danger: true,
      act: () => deleteRetention(kind, name).then(refresh),
    });
  return (
    <section>
      <div className="heading">
        <h1>Retention and settings</h1>
        <div className="actions">
          <May call="setRetention">
            <button type="button" className="plain" onClick={() => change(undefined)}>
              New rule
            </button>
          </May>
        </div>
      </div>
      {data === undefined ? <Pending error={error} /> : <Installation policy={data.installation} />}
      <div className="lone">
        <Table
          label="Rules of queues and types"
          pages={whole(data?.rules, error)}
          columns={ruleColumns(change, remove)}
          idOf={({ kind, name }) => `${kind} ${name}`}
          empty={
            <Empty
              title="All is kept alike"
              needs="setRetention"
              command={curl('/retention/type/audit', { runs_days: 365 }).replace('curl', 'curl -X PUT')}
            >
              <p>A rule keeps the history of a queue or a type longer or shorter:</p>
            </Empty>
          }
        />
      </div>
      <May call="getSettings">
        <Settings />
      </May>
      {dialog}
      {editor}
    </section>
  );
}

const days = (path: string, label: string, value: number | null) => ({
  path,
  label,
  value: value === null ? '' : String(value),
  kind: 'number' as const,
  hint: 'Empty: as the installation does; 0: for ever',
});

const dayWords = (n: number): string => (n === 0 ? 'for ever' : count(n, 'day'));

function Installation({ policy }: { policy: RetentionPolicy }) {
  return (
    <dl className="facts card">
      <Fact name="Ended runs">{dayWords(policy.runs_days)}</Fact>
      <Fact name="Log lines">{dayWords(policy.logs_days)}</Fact>
      <Fact name="Keys of submits">{dayWords(policy.submissions_days)}</Fact>
      <Fact name="Operations">{dayWords(policy.operations_days)}</Fact>
    </dl>
  );
}

const orAlike = (n: number | null) => (n === null ? <None>as the rest</None> : dayWords(n));

const ruleColumns = (
  change: (rule: RetentionRule) => void,
  remove: (rule: RetentionRule) => void,
): Column<RetentionRule>[] => [
  {
    title: 'Of',
    width: 'minmax(8rem, 1fr)',
    phone: 'main',
    cell: ({ kind, name, note }) => (
      <>
        <span className="clip">
          {kind} {kind === 'queue' ? <QueueLink name={name} /> : <a href={to('runs', { type: name })}>{name}</a>}
        </span>
        {note !== null && <span className="cell-below clip">{note}</span>}
      </>
    ),
  },
  { title: 'Ended runs', width: '8rem', cell: ({ runs_days }) => orAlike(runs_days) },
  { title: 'Log lines', width: '8rem', cell: ({ logs_days }) => orAlike(logs_days) },
  { title: 'Changed', width: '6.5rem', phone: 'hidden', cell: ({ changed_at }) => <When at={changed_at} /> },
  {
    title: 'Actions',
    needs: 'setRetention',
    width: '11rem',
    cell: (rule) => (
      <span className="row-actions">
        <button type="button" className="plain" onClick={() => change(rule)}>
          Change
        </button>
        <button type="button" className="plain danger" onClick={() => remove(rule)}>
          Remove
        </button>
      </span>
    ),
  },
];

function Settings() {
  const { data, error } = useOnce('settings', getSettings);
  return (
    <section className="lone">
      <div className="heading">
        <h2>Settings</h2>
        {data !== undefined && <span className="faint">of the server {data.server_id}</span>}
      </div>
      <p>Set by variables of the environment when the server starts. Those that differ from the default come first.</p>
      {data === undefined ? <Pending error={error} /> : <SettingRows settings={data.settings} />}
    </section>
  );
}

function SettingRows({ settings }: { settings: Setting[] }) {
  const ordered = [...settings].sort((a, b) => Number(a.is_default) - Number(b.is_default));
  return (
    <dl className="settings card">
      {ordered.map(({ key, env, value, is_default, meaning }) => (
        <div key={key} className={is_default ? undefined : 'changed'}>
          <dt>
            <code>{env}</code>
          </dt>
          <dd>
            <span className="setting-value">{value === '' ? <None>not set</None> : value}</span>
            <span className="faint">{meaning}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

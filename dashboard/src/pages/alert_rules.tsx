// The rules that watch runs, queues and workers, at #/alerts/rules.
import type { AlertRule } from '@punctual/contract';
import { deleteAlertRule, listAlertRules, putAlertRule } from '../api_alerts.ts';
import { useLive } from '../live.ts';
import { useAct } from '../parts/actions.tsx';
import { AlertNav, kindWords } from '../parts/alert_bits.tsx';
import { None, whole } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { Mark } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';
import { useMay } from '../session.ts';

const liveMs = 5_000;

export function AlertRulesPage() {
  const operates = useMay('putAlertRule');
  const { data, error, refresh } = useLive('alert rules', listAlertRules, liveMs);
  const { act, said } = useAct();
  const { ask, dialog } = useConfirm();
  const turn = ({ name, definition, enabled }: AlertRule) =>
    act(async () => {
      await putAlertRule(name, { ...definition, enabled: !enabled });
      refresh();
      return { text: enabled ? `${name} watches no longer.` : `${name} watches, from now on.` };
    });
  const remove = ({ name, firing }: AlertRule) =>
    ask({
      title: `Remove the rule ${name}?`,
      text: firing === 0 ? 'It watches no longer.' : 'Its alerts that go on are over; nobody is told of that.',
      verb: 'Remove',
      danger: true,
      act: () => deleteAlertRule(name).then(refresh),
    });
  return (
    <section>
      <div className="heading">
        <h1>Alert rules</h1>
        <AlertNav here="rules" />
        {operates && (
          <div className="actions">
            <a className="button" href={to('alerts', 'new-rule')}>
              New rule
            </a>
          </div>
        )}
      </div>
      <Table
        label="Alert rules, by name"
        tall
        pages={whole(data?.rules, error)}
        columns={operates ? [...columns, actionColumn(turn, remove)] : columns}
        idOf={({ name }) => name}
        empty={
          <Empty
            title="Nothing is watched yet"
            needs="putAlertRule"
            command={curl('/alerts/rules/nightly', { kind: 'missed', type: 'backup', period_ms: 90_000_000 }).replace(
              'curl',
              'curl -X PUT',
            )}
          >
            <p>A rule says what is too much, of what, and who is told. Such as: no backup succeeded for 25 hours.</p>
          </Empty>
        }
      />
      {said}
      {dialog}
    </section>
  );
}

function RuleMark({ rule: { enabled, error, firing } }: { rule: AlertRule }) {
  if (!enabled) return <Mark tone="quiet">Off</Mark>;
  if (error !== null) return <Mark tone="warn">Check failed</Mark>;
  return firing > 0 ? <Mark tone="bad">{firing.toLocaleString()} firing</Mark> : <Mark tone="good">Watches</Mark>;
}

const columns: Column<AlertRule>[] = [
  { title: 'State', width: '8.5rem', cell: (rule) => <RuleMark rule={rule} /> },
  {
    title: 'Rule',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ name, wording, error }) => (
      <>
        <a className="cell-name clip" href={to('alerts', 'rules', name)}>
          {name}
        </a>
        <span className={error === null ? 'cell-below clip' : 'cell-below error clip'} title={error ?? wording}>
          {error ?? wording}
        </span>
      </>
    ),
  },
  { title: 'Kind', width: '11rem', phone: 'hidden', cell: ({ kind }) => kindWords[kind] },
  {
    title: 'Tells',
    width: '9rem',
    cell: ({ channels }) => (
      <span className="clip" title={channels.join(', ')}>
        <span className="phone-word">tells </span>
        {channels.length === 0 ? <None>nobody</None> : channels.join(', ')}
      </span>
    ),
  },
  { title: 'Checked', width: '6rem', phone: 'hidden', cell: ({ checked_at }) => <When at={checked_at} /> },
];

const actionColumn = (turn: (rule: AlertRule) => void, remove: (rule: AlertRule) => void): Column<AlertRule> => ({
  title: 'Actions',
  needs: 'putAlertRule',
  width: '11rem',
  cell: (rule) => (
    <span className="row-actions">
      <button type="button" className="plain" onClick={() => turn(rule)}>
        {rule.enabled ? 'Disable' : 'Enable'}
      </button>
      <button type="button" className="plain danger" onClick={() => remove(rule)}>
        Remove
      </button>
    </span>
  ),
});

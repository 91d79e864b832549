// What is wrong now and lately was, at #/alerts; `?rule=` narrows it to one rule.
import type { Alert } from '@punctual/contract';
import { acknowledgeAlert, listAlerts } from '../api_alerts.ts';
import { useLive } from '../live.ts';
import { AlertMark, AlertNav, RuleLink, silenceEdit, useAuthor, valueWords } from '../parts/alert_bits.tsx';
import { count, whole } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { noteOf, useEditor } from '../parts/editor.tsx';
import { curl, Empty } from '../parts/empty.tsx';
import { FilterText } from '../parts/filters.tsx';
import { JobLink, RunLink } from '../parts/links.tsx';
import { usePages } from '../parts/pages.ts';
import { type Column, Table } from '../parts/table.tsx';
import { When } from '../parts/when.tsx';
import { to, useFilters } from '../place.ts';
import { useMay } from '../session.ts';

/** Servers find things without anything else changing. */
const liveMs = 5_000;
/** A page of the API at most. */
const shown = 200;

export function AlertsPage() {
  const { filters } = useFilters();
  const rule = filters.get('rule') ?? '';
  return (
    <section>
      <div className="heading">
        <h1>Alerts</h1>
        <AlertNav here="" />
      </div>
      <div className="filter-bar">
        <FilterText name="rule" label="Of the rule" search />
      </div>
      <Firing rule={rule} />
      <Recent rule={rule} />
    </section>
  );
}

function Firing({ rule }: { rule: string }) {
  const operates = useMay('acknowledgeAlert');
  const author = useAuthor();
  const { ask, dialog } = useConfirm();
  const { edit, editor } = useEditor();
  const { data, error, refresh } = useLive(
    `firing ${rule}`,
    (signal) => listAlerts({ state: 'firing', rule, limit: shown }, signal),
    liveMs,
  );
  const acknowledge = (alert: Alert) =>
    ask({
      title: 'Look after this alert?',
      text: `${alert.summary}. Nobody is told of it again while it goes on.`,
      verb: 'Acknowledge',
      note: { label: 'What is being done', placeholder: 'the mail server is being restarted' },
      act: (note) =>
        acknowledgeAlert(alert.alert_id, {
          ...(author === undefined ? {} : { by: author }),
          ...noteOf(note),
        }).then(refresh),
    });
  const silence = ({ rule: name, group }: Alert) =>
    edit(silenceEdit({ rule: name, ...(group === '' ? {} : { group }) }, author, refresh));
  const columns = operates ? [...alertColumns, actionColumn(acknowledge, silence)] : alertColumns;
  return (
    <>
      <Table
        label="Alerts that go on, newest first"
        tall
        pages={whole(data?.alerts, error)}
        columns={columns}
        idOf={({ alert_id }) => alert_id}
        empty={<Nothing filtered={rule !== ''} />}
      />
      {data?.next_cursor != null && <p className="faint">The newest {shown}.</p>}
      {dialog}
      {editor}
    </>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="Nothing is wrong by this rule" />;
  return (
    <Empty
      title="Nothing is wrong"
      needs="putAlertRule"
      command={curl('/alerts/rules/old-runs', { kind: 'backlog_age', queue: 'default', over_ms: 60_000 }).replace(
        'curl',
        'curl -X PUT',
      )}
    >
      <p>
        What <a href={to('alerts', 'rules')}>rules</a> find stands here while it goes on, and channels tell people. A
        rule is made <a href={to('alerts', 'new-rule')}>here</a>, or so:
      </p>
    </Empty>
  );
}

function Recent({ rule }: { rule: string }) {
  const pages = usePages(
    `recent alerts ${rule}`,
    ({ alert_id }: Alert) => alert_id,
    async (cursor, signal) => {
      const page = await listAlerts({ state: 'resolved', rule, cursor, limit: 50 }, signal);
      return { rows: page.alerts, next: page.next_cursor };
    },
  );
  if (pages.rows?.length === 0) return null;
  return (
    <section className="lone">
      <div className="heading">
        <h2>Lately</h2>
      </div>
      <Table
        label="Alerts that are over, newest first"
        pages={pages}
        columns={[
          ...alertColumns,
          { title: 'Over', width: '6rem', cell: (alert) => <Since word="over " at={alert.resolved_at} /> },
        ]}
        idOf={({ alert_id }) => alert_id}
        empty={null}
      />
    </section>
  );
}

const Since = ({ word, at }: { word: string; at: string | null }) => (
  <>
    <span className="phone-word">{word}</span>
    <When at={at} />
  </>
);

const alertColumns: Column<Alert>[] = [
  { title: 'State', width: '7.6rem', cell: (alert) => <AlertMark alert={alert} /> },
  {
    title: 'Alert',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: (alert) => (
      <>
        <span className="cell-name clip" title={alert.summary}>
          {alert.summary}
        </span>
        <span className="cell-below clip">
          <RuleLink name={alert.rule} />
          {alert.group !== '' && alert.group !== alert.job_id && <> · {alert.group}</>}
          {alert.job_id !== null && (
            <>
              {' '}
              · job <JobLink id={alert.job_id} short />
            </>
          )}
          {alert.run_id !== null && (
            <>
              {' '}
              · run <RunLink id={alert.run_id} short />
            </>
          )}
          {alert.acknowledged_at !== null && (
            <>
              {' '}
              · {alert.acknowledged_by ?? 'somebody'} looks after it{alert.note !== null && `: ${alert.note}`}
            </>
          )}
        </span>
      </>
    ),
  },
  {
    title: 'Value',
    width: '6rem',
    cell: (alert) => (
      <>
        {valueWords(alert)} <span className="cell-below found">found {count(alert.count, 'time')}</span>
      </>
    ),
  },
  { title: 'Since', width: '6rem', cell: ({ since }) => <Since word="since " at={since} /> },
];

const actionColumn = (acknowledge: (alert: Alert) => void, silence: (alert: Alert) => void): Column<Alert> => ({
  title: 'Actions',
  needs: 'acknowledgeAlert',
  width: '12.5rem',
  cell: (alert) => (
    <span className="row-actions">
      {alert.acknowledged_at === null && (
        <button type="button" className="plain" onClick={() => acknowledge(alert)}>
          Acknowledge
        </button>
      )}
      <button type="button" className="plain" onClick={() => silence(alert)}>
        Silence
      </button>
    </span>
  ),
});

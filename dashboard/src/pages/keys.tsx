// API keys, at #/keys, for admins. The secret of a key is shown once, when it is made or rotated.
import type { ApiKey, CreateKey, NewApiKey, Role } from '@punctual/contract';
import { createKey, listKeys, revokeKey, rotateKey } from '../api_keys.ts';
import { useLive } from '../live.ts';
import { None, whole } from '../parts/bits.tsx';
import { useConfirm } from '../parts/dialog.tsx';
import { type EditorField, orNull, useEditor, wholeNumber } from '../parts/editor.tsx';
import { Empty } from '../parts/empty.tsx';
import { showSecret } from '../parts/secret_once.tsx';
import { Mark, sentence, type Tone } from '../parts/status.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { instantOf } from '../parts/time.ts';
import { When } from '../parts/when.tsx';
import { to } from '../place.ts';
import { mayOf, useSession } from '../session.ts';

const tell = ({ name, secret }: NewApiKey) =>
  showSecret({ title: `The key ${name}`, text: 'Only its hash is kept: copy it to where it is needed.', secret });

export function KeysPage() {
  const session = useSession();
  const isOpen = session?.key_id === null;
  const { data, error, refresh } = useLive('keys', listKeys);
  const { edit, editor } = useEditor();
  const { ask, dialog } = useConfirm();
  const create = () =>
    edit({
      title: 'New API key',
      text: isOpen ? openWords : undefined,
      fields: newFields(isOpen ? 'admin' : 'submitter'),
      verb: 'Create',
      save: async (values) => {
        tell(await createKey(keyOf(values)));
        refresh();
      },
    });
  const rotate = ({ key_id, name }: ApiKey) =>
    edit({
      title: `Give ${name} a new secret`,
      text: 'The old secret ends after the time below, so that those who use it can change.',
      fields: [
        { path: 'overlap_seconds', label: 'The old one lives for (seconds)', value: '3600', kind: 'number', step: '1' },
      ],
      verb: 'Rotate',
      save: async (values) => {
        tell(await rotateKey(key_id, wholeNumber(values['overlap_seconds']) ?? 0));
        refresh();
      },
    });
  const revoke = ({ key_id, name }: ApiKey) =>
    ask({
      title: `Revoke ${name}?`,
      text: `Within a second no server accepts it any more, and sessions that were opened with it end. This cannot be undone.${key_id === session?.key_id ? ' You are signed in with this key.' : ''}`,
      verb: 'Revoke',
      danger: true,
      act: () => revokeKey(key_id).then(refresh),
    });
  return (
    <section>
      <div className="heading">
        <h1>API keys</h1>
        {mayOf(session, 'createKey') && (
          <div className="actions">
            <button type="button" onClick={create}>
              New key
            </button>
          </div>
        )}
      </div>
      <Table
        label="API keys, newest first"
        tall
        pages={whole(data?.keys, error)}
        columns={[...columns, actionColumn(rotate, revoke)]}
        idOf={({ key_id }) => key_id}
        empty={
          <Empty title="No key yet" needs="createKey" command="punctual keys create --role admin">
            <p>
              This server is open: whoever reaches it is its admin. As soon as there is a key, every request needs one.
            </p>
          </Empty>
        }
      />
      {editor}
      {dialog}
    </section>
  );
}

const openWords =
  'This server is open now. With its first key it asks everybody for one, also you and the workers: begin with an admin, and keep its secret.';

const roles: readonly (readonly [Role, string])[] = [
  ['viewer', 'viewer: reads'],
  ['submitter', 'submitter: also creates and changes jobs'],
  ['operator', 'operator: also queues, gates, limits, alerts, operations'],
  ['admin', 'admin: everything, also keys'],
  ['worker', 'worker: takes runs, and nothing else'],
];

const newFields = (role: Role): EditorField[] => [
  { path: 'name', label: 'Name', value: '', required: true, placeholder: 'reports service' },
  { path: 'role', label: 'Role', value: role, options: roles },
  { path: 'user_id', label: 'User', value: '', hint: 'It meets only jobs of this user. Not for admins and workers' },
  { path: 'expires_at', label: 'Expires', value: '', kind: 'datetime-local', hint: 'Empty: never' },
  {
    path: 'rate_per_second',
    label: 'Requests a second',
    value: '',
    kind: 'number',
    step: '1',
    hint: 'Empty: as configured for the role',
  },
];

function keyOf(values: Record<string, string>): CreateKey {
  const user = orNull(values['user_id']);
  const expires = instantOf(values['expires_at']);
  const rate = wholeNumber(values['rate_per_second']);
  return {
    name: values['name']?.trim() ?? '',
    role: values['role'] as Role,
    ...(user === null ? {} : { user_id: user }),
    ...(expires === null ? {} : { expires_at: expires }),
    ...(rate === null ? {} : { rate_per_second: rate }),
  };
}

const tones: Record<ApiKey['state'], Tone> = { active: 'good', expired: 'warn', revoked: 'quiet' };

const columns: Column<ApiKey>[] = [
  { title: 'State', width: '6.5rem', cell: ({ state }) => <Mark tone={tones[state]}>{sentence(state)}</Mark> },
  {
    title: 'Key',
    width: 'minmax(0, 1fr)',
    phone: 'main',
    cell: ({ key_id, name, hint, created_at }) => (
      <>
        <a className="cell-name clip" href={to('audit', { key_id })} title={`What was done with ${name}`}>
          {name}
        </a>
        <span className="cell-below clip">
          pk_…{hint} ·{' '}
          <a className="id" title={key_id} href={to('audit', { noun: 'key', id: key_id })}>
            …{key_id.slice(-8)}
          </a>{' '}
          · made <When at={created_at} />
        </span>
      </>
    ),
  },
  { title: 'Role', width: '5.5rem', cell: ({ role }) => role },
  {
    title: 'User',
    width: '6rem',
    cell: ({ user_id }) => (user_id === null ? <None>all</None> : <a href={to('jobs', { user_id })}>{user_id}</a>),
  },
  { title: 'Expires', width: '5.5rem', cell: ({ expires_at }) => <Expiry at={expires_at} /> },
  { title: 'Last used', width: '5.5rem', cell: ({ last_used_at }) => <LastUse at={last_used_at} /> },
];

const Expiry = ({ at }: { at: string | null }) => (
  <>
    <span className="phone-word">expires </span>
    {at === null ? <None>never</None> : <When at={at} />}
  </>
);
const LastUse = ({ at }: { at: string | null }) => (
  <>
    <span className="phone-word">used </span>
    {at === null ? <None>never</None> : <When at={at} />}
  </>
);

const actionColumn = (rotate: (key: ApiKey) => void, revoke: (key: ApiKey) => void): Column<ApiKey> => ({
  title: 'Actions',
  needs: 'revokeKey',
  width: '9.5rem',
  cell: (key) =>
    key.state === 'active' && (
      <span className="row-actions">
        <button type="button" className="plain" onClick={() => rotate(key)}>
          Rotate
        </button>
        <button type="button" className="plain danger" onClick={() => revoke(key)}>
          Revoke
        </button>
      </span>
    ),
});

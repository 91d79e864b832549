// What is around every page: name, search, sections, theme, and how the server is. Beside the page on a wide screen, above
// it on a phone, where the sections open with a button.
import type { Stats } from '@punctual/contract';
import { useState } from 'react';
import { deleteSession } from '../api.ts';
import { useConnection } from '../live.ts';
import { to } from '../place.ts';
import type { Section } from '../routes.tsx';
import { useSession } from '../session.ts';
import { setTheme, type Theme, useTheme } from '../theme.ts';
import { Logo } from './logo.tsx';
import { SearchBox } from './search_box.tsx';
import { useSections } from './sections.ts';

const groups = ['Work', 'Flow', 'Look', 'Rules'] as const;

interface Props {
  server: Stats['server'] | undefined;
  section: string;
  onHelp: () => void;
}

export function Shell({ server, section, onHelp }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <header className={open ? 'shell open' : 'shell'}>
      <a className="brand" href={to()}>
        <Logo />
        <span>Punctual</span>
      </a>
      <button
        type="button"
        className="plain menu"
        aria-expanded={open}
        aria-controls="sections"
        onClick={() => setOpen(!open)}
      >
        {open ? 'Close' : 'Menu'}
      </button>
      <SearchBox />
      {/* A link was followed: the sections have done their work. */}
      <nav id="sections" aria-label="Sections" onClick={() => setOpen(false)}>
        {groups.map((group) => (
          <Group key={group} group={group} current={section} />
        ))}
        <div className="group">
          <a href="docs">API reference</a>
        </div>
      </nav>
      <div className="foot">
        <ServerStatus server={server} />
        <Who />
        <div className="foot-tools">
          <ThemeChoice />
          <button type="button" className="plain" onClick={onHelp} title="Keys (?)">
            Keys
          </button>
        </div>
      </div>
    </header>
  );
}

function Group({ group, current }: { group: Section['group']; current: string }) {
  const members = useSections().filter((section) => section.group === group);
  if (members.length === 0) return null;
  return (
    <div className="group">
      <p className="group-name">{group}</p>
      {members.map(({ path, name }) => (
        <a key={path} href={path === '' ? to() : to(path)} aria-current={path === current ? 'page' : undefined}>
          {name}
        </a>
      ))}
    </div>
  );
}

/** Nobody in particular on a server that asks for no keys. */
function Who() {
  const session = useSession();
  if (session === undefined || session.key_id === null) return null;
  const { name, role, user_id } = session;
  return (
    <p className="who">
      <span className="clip" title={name}>
        Signed in as {name}
      </span>
      <span className="faint">
        {role}
        {user_id === null ? '' : `, ${user_id}`}
      </span>{' '}
      <button type="button" className="link" onClick={() => void deleteSession().finally(() => location.reload())}>
        Sign out
      </button>
    </p>
  );
}

const themes: Record<Theme, { next: Theme; name: string }> = {
  system: { next: 'light', name: 'Auto' },
  light: { next: 'dark', name: 'Light' },
  dark: { next: 'system', name: 'Dark' },
};

function ThemeChoice() {
  const { theme } = useTheme();
  const { next, name } = themes[theme];
  return (
    <button
      type="button"
      className="plain"
      title={`Colours: ${name.toLowerCase()}; change to ${themes[next].name.toLowerCase()}`}
      onClick={() => setTheme(next)}
    >
      {name}
    </button>
  );
}

function ServerStatus({ server }: Pick<Props, 'server'>) {
  const { trouble } = useConnection();
  const tone = trouble !== undefined ? 'bad' : server === undefined ? 'quiet' : 'good';
  const word = trouble !== undefined ? 'Not ready' : server === undefined ? 'Connecting' : 'Ready';
  return (
    <div className="server" title={server === undefined ? undefined : `Server ${server.server_id}`}>
      <span className={`mark ${tone}`}>{word}</span>
      {server !== undefined && (
        <span className="versions">
          {server.version} · PostgreSQL {server.database.replace(/^PostgreSQL\s+/i, '').split(' ')[0]}
        </span>
      )}
    </div>
  );
}

// The keys: `/` to search, `g` and a letter to a section, `?` for this list. Nothing happens while somebody writes.
import { useEffect, useRef } from 'react';
import { to } from '../place.ts';
import { Modal } from './dialog.tsx';
import { useSections } from './sections.ts';

const writes = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** The search of the page if it has one, else that of the whole dashboard. */
function focusSearch(): void {
  const field =
    document.querySelector<HTMLElement>('main [data-search]') ??
    document.querySelector<HTMLElement>('.shell [type=search]');
  field?.focus();
}

export function useKeys(onHelp: () => void): void {
  const gone = useRef(false);
  const sections = useSections();
  const latest = useRef({ onHelp, sections });
  useEffect(() => {
    latest.current = { onHelp, sections };
  });
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || writes(event.target)) return;
      if (document.querySelector('dialog[open]') !== null) return;
      const afterG = gone.current;
      gone.current = false;
      const section = afterG ? latest.current.sections.find(({ key }) => key === event.key) : undefined;
      if (section !== undefined) location.hash = section.path === '' ? to() : to(section.path);
      else if (event.key === 'g') gone.current = true;
      else if (event.key === '/') focusSearch();
      else if (event.key === '?') latest.current.onHelp();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

export function KeysHelp({ onClose }: { onClose: () => void }) {
  return (
    <Modal title="Keys" onClose={onClose}>
      <dl className="keys">
        <Key keys={['/']}>Search</Key>
        {useSections().map(({ path, name, key }) => (
          <Key key={path} keys={['g', key]}>
            {name}
          </Key>
        ))}
        <Key keys={['?']}>This list</Key>
        <Key keys={['Esc']}>Close</Key>
      </dl>
    </Modal>
  );
}

function Key({ keys, children }: { keys: string[]; children: string }) {
  return (
    <div>
      <dt>
        {keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{children}</dd>
    </div>
  );
}

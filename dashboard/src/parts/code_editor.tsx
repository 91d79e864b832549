// A larger JSON text to write, with numbered lines; lines with faults are marked, and each fault leads to its place.
import { useRef } from 'react';

export interface CodeFault {
  offset: number;
  message: string;
  path?: string;
}

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  faults: readonly CodeFault[];
}

export function CodeEditor({ label, value, onChange, faults }: Props) {
  const area = useRef<HTMLTextAreaElement>(null);
  const gutter = useRef<HTMLDivElement>(null);
  const lines = value.split('\n');
  const wrong = new Set(faults.map(({ offset }) => lineOf(value, offset)));
  const jump = (offset: number) => {
    const field = area.current;
    if (field === null) return;
    field.focus();
    field.setSelectionRange(offset, offset + 1);
    field.scrollTop = (lineOf(value, offset) - 5) * (field.scrollHeight / lines.length);
  };
  return (
    <div>
      <div className={faults.length === 0 ? 'code-editor' : 'code-editor wrong'}>
        <div ref={gutter} className="code-lines" aria-hidden="true">
          {lines.map((_, i) => (
            <div key={i} className={wrong.has(i + 1) ? 'wrong' : undefined}>
              {i + 1}
            </div>
          ))}
        </div>
        <textarea
          ref={area}
          aria-label={label}
          aria-invalid={faults.length > 0}
          value={value}
          spellCheck={false}
          autoCapitalize="off"
          wrap="off"
          onChange={(event) => onChange(event.target.value)}
          onScroll={(event) => {
            if (gutter.current !== null) gutter.current.scrollTop = event.currentTarget.scrollTop;
          }}
        />
      </div>
      {faults.length > 0 && (
        <div role="alert">
          <ul className="faults">
            {faults.map((fault) => (
              <li key={`${fault.offset} ${fault.path} ${fault.message}`}>
                <button type="button" className="link" onClick={() => jump(fault.offset)}>
                  Line {lineOf(value, fault.offset)}
                </button>{' '}
                {fault.path !== undefined && <code>{fault.path}</code>} {fault.message}
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}

function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length;
}

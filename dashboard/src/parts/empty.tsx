// In place of a list that has nothing: what it would show, and the first step, as a line to copy.
import { type ReactNode, useState } from 'react';
import { type Operation, useMay } from '../session.ts';

interface EmptyProps {
  title: string;
  children?: ReactNode;
  command?: string;
  /** The first step makes this call: who may not sees only the title. */
  needs?: Operation;
}

export function Empty({ title, children, command, needs = 'getSession' }: EmptyProps) {
  const may = useMay(needs);
  return (
    <div className="empty">
      <h2>{title}</h2>
      {may && children}
      {may && command !== undefined && <Command text={command} />}
    </div>
  );
}

/** A command to copy. */
export function Command({ text }: { text: string }) {
  return (
    <div className="command">
      <pre tabIndex={0}>{text}</pre>
      <CopyButton text={text} />
    </div>
  );
}

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  // Without a secure address there is no clipboard: then the text is there to be selected.
  if (navigator.clipboard === undefined) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
  };
  return (
    <button
      type="button"
      className="plain copy"
      onClick={() => void copy().catch(() => {})}
      onBlur={() => setCopied(false)}
    >
      {copied ? 'Copied' : label}
    </button>
  );
}

/** The call to the API as one would type it. */
export function curl(path: string, body?: unknown): string {
  const url = `${location.origin}${location.pathname.replace(/\/[^/]*$/, '')}${path}`;
  return body === undefined
    ? `curl ${url}`
    : `curl ${url} \\\n  -H 'content-type: application/json' \\\n  -d '${JSON.stringify(body)}'`;
}

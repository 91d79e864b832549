// What a run logged, oldest first, following along while it runs; with a search in it. Colours of terminals are shown, and
// nothing a run writes can be anything but text.
import type { StoredLogLine } from '@punctual/contract';
import { Fragment, memo, useEffect, useId, useRef, useState } from 'react';
import { readAnsi, withoutAnsi } from './ansi.ts';
import { useLogStream } from './log_stream.ts';

export function LogView({ runId }: { runId: string }) {
  const { lines, left, state } = useLogStream(runId);
  const [search, setSearch] = useState('');
  const [follows, setFollows] = useState(true);
  const id = useId();
  const words = search.trim().toLowerCase();
  const shown = words === '' ? lines : lines.filter((line) => withoutAnsi(line.message).toLowerCase().includes(words));
  return (
    <section className="block log-block">
      <div className="block-head">
        <h2>Log</h2>
        <span className="faint number" role="status">
          {stateWords(state, lines.length + left)}
          {words !== '' && `, ${shown.length} with “${search.trim()}”`}
        </span>
        <label className="unseen" htmlFor={id}>
          Search in this log
        </label>
        <input
          id={id}
          type="search"
          data-search=""
          placeholder="Search in this log"
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
        <label className="check">
          <input type="checkbox" checked={follows} onChange={(event) => setFollows(event.target.checked)} />
          Follow
        </label>
      </div>
      {left > 0 && <p className="faint">The first {left.toLocaleString()} lines are not shown here.</p>}
      {shown.length > 0 && (
        <Lines lines={shown} first={left} words={words} follows={follows} onLeave={() => setFollows(false)} />
      )}
    </section>
  );
}

function stateWords(state: ReturnType<typeof useLogStream>['state'], count: number): string {
  if (state === 'refused') return 'The log cannot be followed; load the page again';
  if (count === 0) return state === 'ended' ? 'The run has logged nothing' : 'Nothing logged so far';
  const lines = `${count.toLocaleString()} ${count === 1 ? 'line' : 'lines'}`;
  return state === 'ended' ? lines : `${lines}, more as they come`;
}

interface LinesProps {
  lines: StoredLogLine[];
  first: number;
  words: string;
  follows: boolean;
  onLeave: () => void;
}

function Lines({ lines, first, words, follows, onLeave }: LinesProps) {
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => {
    const shown = list.current;
    if (follows && shown !== null) shown.scrollTop = shown.scrollHeight;
  }, [follows, lines.length]);
  return (
    // Who scrolls up wants to read: following would take it away.
    <ol className="log" ref={list} tabIndex={0} aria-label="Lines" onWheel={(event) => event.deltaY < 0 && onLeave()}>
      {lines.map((line, index) => (
        // Lines have no identity but their place: a log only grows at its end.
        <Line key={first + index} line={line} words={words} />
      ))}
    </ol>
  );
}

const timeFormat = {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
  hour12: false,
} as const;

const Line = memo(function Line({ line, words }: { line: StoredLogLine; words: string }) {
  return (
    <li className={line.level}>
      <time dateTime={line.at} title={`${line.at}, attempt ${line.attempt_number}`}>
        {new Date(line.at).toLocaleTimeString(undefined, timeFormat)}
      </time>
      <span className="level">{line.stream === 'log' ? line.level : line.stream}</span>
      <span>
        {readAnsi(line.message).map(({ text, style }, index) => (
          <span key={index} className={style === '' ? undefined : style}>
            <Found text={text} words={words} />
          </span>
        ))}
      </span>
    </li>
  );
});

/** The text with what was searched for marked. */
export function Found({ text, words }: { text: string; words: string }) {
  if (words === '') return text;
  const pieces: string[] = [];
  const low = text.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(words); at !== -1; at = low.indexOf(words, from)) {
    pieces.push(text.slice(from, at), text.slice(at, at + words.length));
    from = at + words.length;
  }
  pieces.push(text.slice(from));
  return pieces.map((piece, i) => <Fragment key={i}>{i % 2 === 1 ? <mark>{piece}</mark> : piece}</Fragment>);
}

// The search of every page: text finds jobs, an id leads to its run or job.
import { type FormEvent, useState } from 'react';
import { getRun } from '../api.ts';
import { to } from '../place.ts';

const idShape = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function SearchBox() {
  const [text, setText] = useState('');
  const search = async (event: FormEvent) => {
    event.preventDefault();
    const wanted = text.trim();
    if (wanted === '') return;
    setText('');
    location.hash = idShape.test(wanted.toLowerCase())
      ? await placeOf(wanted.toLowerCase())
      : to('jobs', { q: wanted });
  };
  return (
    <form role="search" className="search" onSubmit={(event) => void search(event)}>
      <input
        type="search"
        aria-label="Search jobs, or an id"
        placeholder="Search or id  ( / )"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
    </form>
  );
}

/** Whether an id is of a run only the server knows; what is neither is told by the page of the job. */
async function placeOf(id: string): Promise<string> {
  try {
    await getRun(id, new AbortController().signal);
    return to('runs', id);
  } catch {
    return to('jobs', id);
  }
}

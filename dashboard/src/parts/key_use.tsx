// How a concurrency key is used now: any key can be asked for, also one without a limit of its own.
import type { KeyUse } from '@punctual/contract';
import { type FormEvent, useState } from 'react';
import { getKeyLimit } from '../api_flow.ts';
import { useLive } from '../live.ts';
import { Fact, None, rateWords } from './bits.tsx';
import { TextField } from './form.tsx';
import { RunLink } from './links.tsx';
import { Pending } from './problem.tsx';
import { When } from './when.tsx';

export function KeyUseCard({ asked, onAsk }: { asked: string; onAsk: (key: string) => void }) {
  const [key, setKey] = useState(asked);
  const ask = (event: FormEvent) => {
    event.preventDefault();
    onAsk(key.trim());
  };
  return (
    <>
      <form className="filter-bar" onSubmit={ask}>
        <TextField label="How is a key used now?" path="key" value={key} onChange={setKey} placeholder="customer-7" />
        <button type="submit" className="plain">
          Look
        </button>
      </form>
      {asked !== '' && <Use asked={asked} />}
    </>
  );
}

const sources: Record<KeyUse['source'], string> = {
  own: 'a limit of its own',
  default: 'the default *',
  none: 'none',
};

function Use({ asked }: { asked: string }) {
  const { data, error } = useLive(`key ${asked}`, (signal) => getKeyLimit(asked, signal));
  if (data === undefined) return <Pending error={error} />;
  return (
    <dl className="facts card key-use">
      <Fact name="Key">{data.key}</Fact>
      <Fact name="Limit">{sources[data.source]}</Fact>
      <Fact name="Places taken">
        {data.in_use}
        {data.max_concurrency !== null && <span className="faint"> of {data.max_concurrency}</span>}
      </Fact>
      <Fact name="Wait for a place">{data.waiting.toLocaleString()}</Fact>
      <Fact name="Starts at most">{rateWords(data.rate) ?? <None>no limit</None>}</Fact>
      {data.tokens !== null && <Fact name="May start now">{Math.floor(data.tokens).toLocaleString()}</Fact>}
      {data.blocked_until !== null && (
        <Fact name="Told to wait until">
          <When at={data.blocked_until} />
        </Fact>
      )}
      {data.holders.length > 0 && (
        <Fact name="Held by" wide>
          {data.holders.slice(0, 20).map((id) => (
            <span key={id}>
              <RunLink id={id} short />{' '}
            </span>
          ))}
        </Fact>
      )}
    </dl>
  );
}

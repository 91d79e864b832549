// What `punctual start` says when everything is up: where to click, what to paste, how to stop.
import type { Output } from '../output.ts';

export interface Banner {
  version: string;
  url: string;
  /** The folder of the embedded PostgreSQL, or the address of another. */
  data: string;
  slots: number;
  allowShell: boolean;
  allowBinary: boolean;
  /** Requests need an API key. */
  asksForKeys: boolean;
}

export function printBanner(
  { line, paint }: Output,
  { version, url, data, slots, asksForKeys, ...allow }: Banner,
): void {
  const key = asksForKeys ? ` -H "Authorization: Bearer $PUNCTUAL_API_KEY"` : '';
  const kinds = ['http', ...(allow.allowShell ? ['shell'] : []), ...(allow.allowBinary ? ['binary'] : [])];
  const hint = allow.allowShell ? '' : ' (shell jobs with PUNCTUAL_ALLOW_SHELL=true)';
  const shell = `${kinds.join(' and ')} jobs${hint}`;
  line(paint('bold', `Punctual ${version} is ready.`));
  line();
  line(`  dashboard  ${paint('cyan', `${url}/`)}`);
  line(`  API        ${paint('cyan', `${url}/docs`)}`);
  line(`  data       ${data}`);
  line(`  worker     ${slots} slots for ${shell} and the types echo and sleep`);
  line();
  line(`A first job, to paste into another terminal${asksForKeys ? ', with your key in PUNCTUAL_API_KEY' : ''}:`);
  line();
  line(`  curl ${url}/jobs${key} -H 'content-type: application/json' -d '${firstJob}'`);
  line();
  line('How it went, as its latest run:');
  line();
  line(`  curl '${url}/runs?limit=1'${key}`);
  line();
  line(paint('dim', 'Ctrl-C stops everything; what is not done yet is kept.'));
}

const firstJob = '{"type": "echo", "payload": {"greeting": "hello"}}';

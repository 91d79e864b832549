// The version of this package and the Node it needs, as package.json has them.
import { readFileSync } from 'node:fs';

interface Manifest {
  version: string;
  engines: { node: string };
}

function manifest(): Manifest {
  return JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as Manifest;
}

export function version(): string {
  return manifest().version;
}

/** The least version of Node, such as `20.19`. */
export function neededNode(): string {
  return manifest().engines.node.replace(/^>=\s*/, '');
}

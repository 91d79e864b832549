// A part of the dashboard as a module: for tests of what is pure there. The dashboard is bundled for browsers, so its files
// are compiled here one by one; they may import types only.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const dashboard = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', '..', '..', 'dashboard');

interface Vite {
  transformWithOxc: (code: string, file: string) => Promise<{ code: string }>;
}

/** `importSource<{ layOut: … }>('parts/graph_layout.ts')`. */
export async function importSource<Module>(file: string): Promise<Module> {
  const vite = createRequire(path.join(dashboard, 'package.json')).resolve('vite');
  const { transformWithOxc } = (await import(pathToFileURL(vite).href)) as Vite;
  const source = path.join(dashboard, 'src', file);
  const { code } = await transformWithOxc(readFileSync(source, 'utf8'), source);
  return (await import(`data:text/javascript;base64,${Buffer.from(code).toString('base64')}`)) as Module;
}

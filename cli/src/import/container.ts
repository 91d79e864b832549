// The first container of a pod as a program for the shell executor: its command, arguments, plain variables and folder.
// Pure; used by kubernetes.ts.
import type { CreateJob } from '@punctual/contract';
import { at } from './value_at.ts';

type Program = { executor: NonNullable<CreateJob['executor']>; notes: string[] } | { reason: string };

export function programOf(pod: unknown): Program {
  const containers = at(pod, 'containers');
  if (!Array.isArray(containers) || containers.length === 0) return { reason: 'has no container' };
  const first: unknown = containers[0];
  const command = textsOf(at(first, 'command'));
  const args = textsOf(at(first, 'args'));
  if (command === null || args === null) return { reason: 'command or args is not a list of texts' };
  if (command.length === 0)
    return { reason: `has no command: only its image ${JSON.stringify(at(first, 'image') ?? '')} knows what it runs` };
  const { env, left } = variablesOf(at(first, 'env'));
  const folder = at(first, 'workingDir');
  return {
    executor: {
      kind: 'shell',
      command: [...command, ...args].map((word) => expand(word, env)),
      ...(Object.keys(env).length === 0 ? {} : { env }),
      ...(typeof folder === 'string' && folder !== '' ? { cwd: folder } : {}),
    },
    notes: [
      ...(containers.length > 1 ? [`only the first of its ${containers.length} containers is run`] : []),
      ...(at(pod, 'initContainers') === undefined ? [] : ['its initContainers are not run']),
      ...(left.length === 0 ? [] : [`without a plain value, and not carried over: ${left.join(', ')}`]),
      ...(at(first, 'envFrom') === undefined ? [] : ['the variables of envFrom are not carried over']),
    ],
  };
}

function textsOf(value: unknown): string[] | null {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) && value.every((word) => typeof word === 'string') ? value : null;
}

function variablesOf(list: unknown): { env: Record<string, string>; left: string[] } {
  const env: Record<string, string> = {};
  const left: string[] = [];
  for (const variable of Array.isArray(list) ? (list as unknown[]) : []) {
    const [name, value] = [at(variable, 'name'), at(variable, 'value')];
    if (typeof name === 'string' && typeof value === 'string' && /^[A-Za-z_]\w{0,99}$/.test(name)) env[name] = value;
    else left.push(String(name));
  }
  return { env, left };
}

/** $(NAME) of a known variable; $$(NAME) is an escaped one. */
function expand(word: string, env: Record<string, string>): string {
  return word.replace(/\$?\$\((\w+)\)/g, (found, name: string) => {
    if (found.startsWith('$$')) return found.slice(1);
    return Object.hasOwn(env, name) ? (env[name] ?? found) : found;
  });
}

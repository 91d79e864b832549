// ExecStart= of systemd as a program and its arguments: no shell reads it there, so none does here, except to run several
// commands one after the other. Variables of Environment= are filled in as systemd does. Pure.

export type Executed = { command: string[]; notes: string[] } | { reason: string };
type Variables = Readonly<Record<string, string>>;

export function translateCommands(lines: readonly string[], env: Variables): Executed {
  const commands: { words: string[]; mayFail: boolean }[] = [];
  const notes: string[] = [];
  for (const line of lines) {
    const [, prefix = '', rest = ''] = /^([-@:+!|]*)\s*(.*)$/s.exec(line) ?? [];
    if (prefix.includes('@'))
      return { reason: '@ gives the program another name for itself, which is not possible here' };
    if (/[+!]/.test(prefix)) notes.push('systemd runs it with other privileges (+ or !)');
    const split = splitWords(rest);
    if (split === null) return { reason: 'has a quote that does not end' };
    const words = expandWords(split, prefix.includes(':') ? null : env);
    if ('reason' in words) return words;
    if (words.words.length === 0) return { reason: 'names no program' };
    commands.push({ words: words.words, mayFail: prefix.includes('-') });
  }
  const [only] = commands;
  if (only === undefined) return { reason: 'has no ExecStart=' };
  if (commands.length === 1 && !only.mayFail) return { command: only.words, notes };
  const script = commands.map(({ words, mayFail }) => {
    const quoted = words.map(quote).join(' ');
    return mayFail ? `{ ${quoted} || true; }` : quoted;
  });
  return { command: ['/bin/sh', '-c', script.join(' && ')], notes };
}

/** For a shell to read as one word. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

const escapes: Record<string, string> = { n: '\n', t: '\t', r: '\r', s: ' ', '\\': '\\', '"': '"', "'": "'" };

/** Null when a quote is open at the end. */
export function splitWords(text: string): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  let open: string | null = null;
  for (let i = 0; i < text.length; i++) {
    const char = text.charAt(i);
    if (char === '\\' && i + 1 < text.length) {
      i += 1;
      word = (word ?? '') + (escapes[text.charAt(i)] ?? `\\${text.charAt(i)}`);
    } else if (open !== null) {
      if (char === open) open = null;
      else word = (word ?? '') + char;
    } else if ((char === '"' || char === "'") && word === null) {
      open = char;
      word = '';
    } else if (/\s/.test(char)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? '') + char;
  }
  if (open !== null) return null;
  return word === null ? words : [...words, word];
}

/** `$NAME` as a word of its own may become several words; `${NAME}` stays within its word. */
function expandWords(words: readonly string[], env: Variables | null): { words: string[] } | { reason: string } {
  const missing: string[] = [];
  const valueOf = (name: string): string => {
    if (env?.[name] === undefined) missing.push(name);
    return env?.[name] ?? '';
  };
  const expanded = words.flatMap((word) => {
    if (env === null) return [word];
    const whole = /^\$([A-Za-z_]\w*)$/.exec(word);
    if (whole !== null)
      return valueOf(whole[1] ?? '')
        .split(/\s+/)
        .filter((part) => part !== '');
    return [
      word.replace(/\$\$|\$\{(\w+)\}/g, (found, name: string | undefined) =>
        found === '$$' ? '$' : valueOf(name ?? ''),
      ),
    ];
  });
  if (missing.length > 0) return { reason: `uses the variable ${missing[0]}, which Environment= does not set` };
  const specifier = expanded
    .map((word) => /%[^%]/.exec(word.replaceAll('%%', ''))?.[0])
    .find((found) => found !== undefined);
  if (specifier !== undefined) return { reason: `uses ${specifier}, which only systemd can fill in` };
  if (expanded.includes(';')) return { reason: 'has several commands in one line' };
  return { words: expanded.map((word) => word.replaceAll('%%', '%')) };
}

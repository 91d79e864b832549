// Text that others wrote, made safe to be shown: control characters and those that turn the direction of writing around
// become visible signs, one for one, so that places in the text stay where they are. Pure.

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export function harmless(text: string): string {
  return text.replace(hidden, (character) => {
    const code = character.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : '\u2421';
  });
}

export interface Piece {
  text: string;
  found: boolean;
}

/** The text cut at its highlights; what they say is not trusted: overlaps and places outside are left out. */
export function pieces(text: string, highlights: readonly { from: number; to: number }[]): Piece[] {
  const shown = harmless(text);
  const parts: Piece[] = [];
  let at = 0;
  for (const { from, to } of [...highlights].sort((a, b) => a.from - b.from)) {
    if (from < at || to <= from || to > shown.length) continue;
    if (from > at) parts.push({ text: shown.slice(at, from), found: false });
    parts.push({ text: shown.slice(from, to), found: true });
    at = to;
  }
  if (at < shown.length) parts.push({ text: shown.slice(at), found: false });
  return parts;
}

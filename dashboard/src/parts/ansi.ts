// Text as programs write it for terminals, taken apart into harmless pieces: colours become classes, every other control
// sequence is left out, control characters that remain are shown as signs. Pure; what it answers is put into the page as
// text, never as HTML.

export interface Piece {
  text: string;
  /** `ansi-1 ansi-bold`, of parts.css; empty for plain text. */
  style: string;
}

interface Look {
  colour: number | null;
  ground: number | null;
  bold: boolean;
  faint: boolean;
  italic: boolean;
  underline: boolean;
}

const plain: Look = { colour: null, ground: null, bold: false, faint: false, italic: false, underline: false };

// A sequence of SGR codes; any other CSI; an OSC with its end; any other escape of two characters.
const sequence =
  /\u001b\[([0-9;:]*)m|\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-_]/g;

export function readAnsi(text: string): Piece[] {
  const pieces: Piece[] = [];
  let look = plain;
  let from = 0;
  const add = (until: number) => {
    const part = text.slice(from, until);
    if (part !== '') pieces.push({ text: harmless(part), style: styleOf(look) });
  };
  for (const found of text.matchAll(sequence)) {
    add(found.index);
    from = found.index + found[0].length;
    if (found[1] !== undefined) look = applied(look, found[1]);
  }
  add(text.length);
  return pieces;
}

/** The text alone, for searching. */
export function withoutAnsi(text: string): string {
  return text.replace(sequence, '');
}

function applied(look: Look, codes: string): Look {
  const numbers = codes.split(/[;:]/).map(Number);
  let next = { ...look };
  for (let i = 0; i < numbers.length; i += 1) {
    const code = numbers[i] ?? 0;
    // 256 colours and true colours: the sixteen of the first kind are ours, the others are left to the plain one.
    if (code === 38 || code === 48) {
      const isIndex = numbers[i + 1] === 5;
      const colour = isIndex ? (numbers[i + 2] ?? 16) : 16;
      if (code === 38) next.colour = colour < 16 ? colour : null;
      else next.ground = colour < 16 ? colour : null;
      i += isIndex ? 2 : 4;
    } else next = one(next, code);
  }
  return next;
}

function one(look: Look, code: number): Look {
  if (code === 0) return plain;
  if (code === 1) return { ...look, bold: true };
  if (code === 2) return { ...look, faint: true };
  if (code === 3) return { ...look, italic: true };
  if (code === 4) return { ...look, underline: true };
  if (code === 22) return { ...look, bold: false, faint: false };
  if (code === 23) return { ...look, italic: false };
  if (code === 24) return { ...look, underline: false };
  if (code >= 30 && code <= 37) return { ...look, colour: code - 30 };
  if (code >= 90 && code <= 97) return { ...look, colour: code - 90 + 8 };
  if (code === 39) return { ...look, colour: null };
  if (code >= 40 && code <= 47) return { ...look, ground: code - 40 };
  if (code >= 100 && code <= 107) return { ...look, ground: code - 100 + 8 };
  if (code === 49) return { ...look, ground: null };
  return look;
}

function styleOf({ colour, ground, bold, faint, italic, underline }: Look): string {
  const names = [
    colour === null ? '' : `ansi-${colour % 8}`,
    ground === null ? '' : 'ansi-ground',
    bold ? 'ansi-bold' : '',
    faint ? 'ansi-faint' : '',
    italic ? 'ansi-italic' : '',
    underline ? 'ansi-underline' : '',
  ];
  return names.filter((name) => name !== '').join(' ');
}

/** Browsers draw control characters as nothing, or turn the text around: they are shown instead. */
export function harmless(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (character) => {
    const code = character.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

// Light or dark: as the system says, or as chosen here and remembered by this browser. Charts, which draw on canvases, read
// their colours through `colourOf` and draw again when the theme changes.
import { useSyncExternalStore } from 'react';

export type Theme = 'system' | 'light' | 'dark';

const key = 'punctual-theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const readers = new Set<() => void>();
let chosen = readChosen();

function readChosen(): Theme {
  try {
    const kept = localStorage.getItem(key);
    return kept === 'light' || kept === 'dark' ? kept : 'system';
  } catch {
    return 'system'; // a browser that keeps nothing
  }
}

function apply(): void {
  if (chosen === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = chosen;
  for (const reader of readers) reader();
}

export function setTheme(theme: Theme): void {
  chosen = theme;
  try {
    localStorage.setItem(key, theme);
  } catch {
    // then it holds for this page only
  }
  apply();
}

function subscribe(reader: () => void): () => void {
  readers.add(reader);
  return () => void readers.delete(reader);
}

/** What was chosen, and whether it is dark now. */
export function useTheme(): { theme: Theme; dark: boolean } {
  const theme = useSyncExternalStore(subscribe, () => chosen);
  const dark = useSyncExternalStore(subscribe, () => chosen === 'dark' || (chosen === 'system' && system.matches));
  return { theme, dark };
}

/** The colour that a custom property such as `--good` stands for now, as a canvas understands it. */
export function colourOf(property: string): string {
  const probe = document.createElement('i');
  probe.style.color = `var(${property})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

system.addEventListener('change', apply);
apply();

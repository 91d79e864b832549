// All kinds of objects that files hold, in the order in which they are applied.
import { alertKinds } from './alert_kinds.ts';
import { flowKinds } from './flow_kinds.ts';
import { jobKind } from './job_kind.ts';
import { type Kind, type Section, type SettingKind, sections } from './kind.ts';

export const settingKinds: readonly SettingKind[] = [...flowKinds, ...alertKinds];
export const kinds: readonly Kind[] = [...settingKinds, jobKind];

export function settingKindsOf(names: Iterable<Section>): SettingKind[] {
  const wanted = new Set(names);
  return settingKinds.filter(({ section }) => wanted.has(section));
}

/** A list of sections as a flag has it; what is not one is answered by its name. */
export function sectionsOf(text: string): Section[] | { unknown: string } {
  const words = text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
  const unknown = words.find((word) => !(sections as readonly string[]).includes(word));
  return unknown === undefined ? sections.filter((section) => words.includes(section)) : { unknown };
}

// The sections that are offered to whoever is signed in. Used by the navigation and by the keys.
import { type Section, sections } from '../routes.tsx';
import { mayOf, useSession } from '../session.ts';

export function useSections(): Section[] {
  const session = useSession();
  return sections.filter(({ needs }) => needs === undefined || mayOf(session, needs));
}

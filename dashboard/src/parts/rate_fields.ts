// The fields of a rate in a dialog, and the rate they make. Pure.
import type { Rate } from '@punctual/contract';
import { type EditorField, wholeNumber } from './editor.tsx';

export function rateFields(rate: Rate | null): EditorField[] {
  return [
    {
      path: 'rate.units',
      label: 'Starts at most',
      value: String(rate?.units ?? ''),
      kind: 'number',
      hint: 'Units in the time below; a run uses one unless it says more. Empty for any number',
    },
    {
      path: 'rate.per_ms',
      label: 'in so many seconds',
      value: rate === null ? '' : String(rate.per_ms / 1000),
      kind: 'number',
    },
    {
      path: 'rate.burst',
      label: 'and so many at once after a quiet time',
      value: String(rate?.burst ?? ''),
      kind: 'number',
    },
  ];
}

export function rateOf(values: Record<string, string>): Rate | null {
  const units = wholeNumber(values['rate.units']);
  if (units === null) return null;
  const seconds = wholeNumber(values['rate.per_ms']) ?? 1;
  const burst = wholeNumber(values['rate.burst']);
  return { units, per_ms: Math.round(seconds * 1000), ...(burst === null ? {} : { burst }) };
}

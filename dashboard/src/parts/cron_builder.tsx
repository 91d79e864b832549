// Builds a cron expression: how often, and what that needs. The expression itself is always there to be written by hand.
import type { FieldError } from '@punctual/contract';
import { type CronParts, type Frequency, fromCron, toCron, weekdays } from './cron.ts';
import { SelectField, TextField } from './form.tsx';

interface Props {
  value: string;
  onChange: (expression: string) => void;
  errors: readonly FieldError[];
}

const frequencies: readonly (readonly [Frequency, string])[] = [
  ['minutes', 'every few minutes'],
  ['hourly', 'every hour'],
  ['daily', 'every day'],
  ['weekly', 'every week'],
  ['monthly', 'every month'],
  ['custom', 'as written below'],
];
const steps = ['1', '2', '3', '5', '10', '15', '20', '30'].map((step) => [step, `every ${step} min`] as const);
const monthDays = [...Array.from({ length: 31 }, (_, i) => String(i + 1)), 'L'].map(
  (day) => [day, day === 'L' ? 'the last' : day] as const,
);

export function CronBuilder({ value, onChange, errors }: Props) {
  const parts = fromCron(value);
  const set = (change: Partial<CronParts>) => {
    const next = toCron({ ...parts, ...change });
    if (next !== undefined) onChange(next);
  };
  const { frequency } = parts;
  const timed = frequency === 'daily' || frequency === 'weekly' || frequency === 'monthly';
  return (
    <>
      <div className="field-row">
        <SelectField
          label="How often"
          path="-"
          value={frequency}
          options={frequencies}
          onChange={(next) => set({ frequency: next as Frequency })}
        />
        {frequency === 'minutes' && (
          <SelectField label="Step" path="-" value={parts.every} options={steps} onChange={(every) => set({ every })} />
        )}
        {frequency === 'hourly' && (
          <TextField
            label="At minute"
            path="-"
            type="number"
            min={0}
            max={59}
            value={parts.minute}
            onChange={(minute) => set({ minute })}
          />
        )}
        {frequency === 'monthly' && (
          <SelectField label="On day" path="-" value={parts.day} options={monthDays} onChange={(day) => set({ day })} />
        )}
        {timed && (
          <TextField
            label="At"
            path="-"
            type="time"
            value={parts.time}
            onChange={(time) => time !== '' && set({ time })}
          />
        )}
      </div>
      {frequency === 'weekly' && <Days days={parts.days} onChange={(days) => set({ days })} />}
      <TextField
        label="Cron expression"
        path="cron_expression"
        className="mono"
        value={value}
        errors={errors}
        spellCheck={false}
        hint="Five fields, or six with seconds first; L W # and @daily too. Several: one after the other with |"
        onChange={onChange}
      />
    </>
  );
}

function Days({ days, onChange }: { days: string[]; onChange: (days: string[]) => void }) {
  const toggle = (day: string) => {
    const next = days.includes(day) ? days.filter((each) => each !== day) : [...days, day];
    if (next.length > 0) onChange(next);
  };
  return (
    <fieldset className="choice">
      <legend>On</legend>
      {weekdays.map((day) => (
        <label key={day}>
          <input type="checkbox" checked={days.includes(day)} onChange={() => toggle(day)} />
          <span>{day.charAt(0) + day.slice(1).toLowerCase()}</span>
        </label>
      ))}
    </fieldset>
  );
}

// The states of gates and breakers as coloured words.
import type { Breaker, GateState } from '@punctual/contract';
import { Mark, type Tone } from './status.tsx';

const gateTones: Record<GateState, Tone> = { open: 'good', hold: 'warn', drop: 'drop' };
const gateWords: Record<GateState, string> = { open: 'Open', hold: 'Held', drop: 'Drops' };

export const GateMark = ({ state }: { state: GateState }) => <Mark tone={gateTones[state]}>{gateWords[state]}</Mark>;

const breakerTones: Record<Breaker['state'], Tone> = { closed: 'good', open: 'bad', probing: 'busy' };
const breakerWords: Record<Breaker['state'], string> = { closed: 'Lets run', open: 'Tripped', probing: 'Trying one' };

export const BreakerMark = ({ state }: { state: Breaker['state'] }) => (
  <Mark tone={breakerTones[state]}>{breakerWords[state]}</Mark>
);

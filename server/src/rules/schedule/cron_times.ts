// From wall-clock times to instants: what a cron expression means in a zone whose clocks change. The meaning is Vixie
// cron's, made exact. An expression with * or a step in second, minute or hour follows the time that passes: it fires
// at every instant whose local time matches. Any other names fixed times: one that the clocks leave out runs at the
// first instant after the gap (all of one gap together once) or not at all; one that they show twice runs at the first,
// or at both. Times are found in order, and no instant twice.
//
// A stream stands at an instant; a step looks at one piece of the zone and either finds the next time or moves on to
// where the next may be. That is the next piece, or, when the next match is far, two days before it: no two offsets are
// further apart, so no time of a gap is passed. Before an overlap it never jumps: matches may be shown again.
import type { Cron } from './cron.ts';
import { nextLocal } from './local.ts';
import { DAY_MS, LAST_MS, type Note, type SharedRule } from './rule.ts';
import { pieceAt, type Zone } from './zone.ts';

export interface Nominal {
  ms: number;
  /** What the clock on the wall was meant to show. */
  local: number;
  note: Note | null;
}

export interface Stream {
  cron: Cron;
  /** Nothing from the start up to here, but `head`, is left. */
  at: number;
  /** The next time, when it is found. */
  head: Nominal | null;
  /** The year of the piece looked at last. */
  year: number;
}

export type ClockPolicy = Pick<SharedRule, 'dst_gap' | 'dst_overlap'>;

const JUMP_BACK_MS = 2 * DAY_MS;

/** Sets `head`, or moves `at`; past LAST_MS when there is nothing more. */
export function stepCron(stream: Stream, zone: Zone, policy: ClockPolicy): void {
  const { cron, at } = stream;
  const piece = pieceAt(zone, at);
  const begin = piece.from + piece.offset;
  const end = piece.to + piece.offset;
  stream.year = piece.year;
  if (!cron.follows && policy.dst_gap === 'run_after' && at === piece.from && piece.gap_from < begin) {
    const missing = nextLocal(cron, piece.gap_from);
    if (missing !== null && missing < begin) {
      stream.head = { ms: at, local: missing, note: 'gap_moved' };
      return;
    }
  }
  const once = !cron.follows && policy.dst_overlap === 'first';
  const local = nextLocal(cron, once ? Math.max(at + piece.offset, piece.seen_below) : at + piece.offset);
  if (local !== null && local < end) {
    const note = local < piece.seen_below ? 'overlap_second' : local >= piece.again_from ? 'overlap_first' : null;
    stream.head = { ms: local - piece.offset, local, note };
    stream.at = stream.head.ms;
  } else if (piece.again_from < end) {
    stream.at = piece.to;
  } else if (local === null) {
    stream.at = LAST_MS + 1;
  } else {
    stream.at = Math.max(piece.to, local - piece.offset - JUMP_BACK_MS);
  }
}

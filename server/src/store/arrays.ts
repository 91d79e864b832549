// Arrays as PostgreSQL reads them in binary: half the work of text arrays for `pg` and for the server, which matters where
// hundreds of rows travel in one statement. A Buffer parameter is sent in binary; the cast in the statement names the type.

const oids = { int2: 21, int4: 23, int8: 20, uuid: 2950, text: 25, bytea: 17, timestamptz: 1184 } as const;
type Type = keyof typeof oids;

/** Microseconds from 1970 to 2000, where PostgreSQL counts from. */
const epochMs = 946_684_800_000;
const headerBytes = 20;

export function int2s<Row>(rows: readonly Row[], pick: (row: Row) => number | null): Buffer {
  return fixed('int2', 2, rows, pick, (buffer, value, at) => buffer.writeInt16BE(value, at));
}

export function int4s<Row>(rows: readonly Row[], pick: (row: Row) => number | null): Buffer {
  return fixed('int4', 4, rows, pick, (buffer, value, at) => buffer.writeInt32BE(value, at));
}

/** Whole numbers up to 2^53. */
export function int8s<Row>(rows: readonly Row[], pick: (row: Row) => number | null): Buffer {
  return fixed('int8', 8, rows, pick, writeInt8);
}

/** Times in milliseconds since 1970. */
export function timestamps<Row>(rows: readonly Row[], pick: (row: Row) => number | null): Buffer {
  return fixed('timestamptz', 8, rows, pick, (buffer, value, at) => writeInt8(buffer, (value - epochMs) * 1000, at));
}

export function uuids<Row>(rows: readonly Row[], pick: (row: Row) => string | null): Buffer {
  return fixed('uuid', 16, rows, pick, writeUuid);
}

export function texts<Row>(rows: readonly Row[], pick: (row: Row) => string | null): Buffer {
  // A code unit is at most three bytes: one pass that writes into enough room beats measuring first.
  let most = headerBytes;
  for (const row of rows) most += 4 + 3 * (pick(row)?.length ?? 0);
  const buffer = Buffer.allocUnsafe(Math.max(most, headerBytes));
  let at = headerBytes;
  let nulls = false;
  for (const row of rows) {
    const value = pick(row);
    if (value === null) {
      nulls = true;
      buffer.writeInt32BE(-1, at);
      at += 4;
    } else {
      const written = value.length === 0 ? 0 : buffer.write(value, at + 4);
      buffer.writeInt32BE(written, at);
      at += 4 + written;
    }
  }
  return finish(buffer, 'text', rows.length, nulls, at);
}

export function byteas<Row>(rows: readonly Row[], pick: (row: Row) => Buffer | null): Buffer {
  const values = rows.map(pick);
  const buffer = Buffer.allocUnsafe(headerBytes + values.reduce((sum, value) => sum + 4 + (value?.length ?? 0), 0));
  let at = headerBytes;
  for (const value of values) {
    buffer.writeInt32BE(value?.length ?? -1, at);
    at += 4;
    if (value !== null) at += value.copy(buffer, at);
  }
  return finish(buffer, 'bytea', rows.length, values.includes(null), at);
}

function fixed<Row, T>(
  type: Type,
  size: number,
  rows: readonly Row[],
  pick: (row: Row) => T | null,
  write: (buffer: Buffer, value: T, at: number) => void,
): Buffer {
  const buffer = Buffer.allocUnsafe(headerBytes + rows.length * (4 + size));
  let at = headerBytes;
  let nulls = false;
  for (const row of rows) {
    const value = pick(row);
    buffer.writeInt32BE(value === null ? -1 : size, at);
    at += 4;
    if (value === null) {
      nulls = true;
      continue;
    }
    write(buffer, value, at);
    at += size;
  }
  return finish(buffer, type, rows.length, nulls, at);
}

/** One dimension, or none for an empty array; whether there are nulls; the type; the length; the first index. */
function finish(buffer: Buffer, type: Type, length: number, nulls: boolean, end: number): Buffer {
  buffer.writeInt32BE(length === 0 ? 0 : 1, 0);
  buffer.writeInt32BE(nulls ? 1 : 0, 4);
  buffer.writeInt32BE(oids[type], 8);
  if (length === 0) return buffer.subarray(0, 12);
  buffer.writeInt32BE(length, 12);
  buffer.writeInt32BE(1, 16);
  return buffer.subarray(0, end);
}

function writeInt8(buffer: Buffer, value: number, at: number): void {
  const high = Math.floor(value / 2 ** 32);
  buffer.writeInt32BE(high, at);
  buffer.writeUInt32BE(value - high * 2 ** 32, at + 4);
}

/** The value of a hex digit by its character code. */
const nibbles = new Uint8Array(128);
for (let digit = 0; digit < 16; digit++) {
  nibbles[digit.toString(16).charCodeAt(0)] = digit;
  nibbles[digit.toString(16).toUpperCase().charCodeAt(0)] = digit;
}

/** Where the bytes of a uuid begin in its text: 8-4-4-4-12. */
const uuidBytes = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/** Digit by digit: five calls of Buffer.write cost more than thirty-two look-ups. */
function writeUuid(buffer: Buffer, value: string, at: number): void {
  for (let i = 0; i < 16; i++) {
    const from = uuidBytes[i] as number;
    buffer[at + i] =
      ((nibbles[value.charCodeAt(from)] as number) << 4) | (nibbles[value.charCodeAt(from + 1)] as number);
  }
}

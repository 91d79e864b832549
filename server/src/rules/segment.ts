// Where things live: everything judged together (the same key) is placed in the segment of that key's hash.

/** FNV-1a over the UTF-16 code units: quick, the same on every server, spread well enough for placement. */
export function segmentOfKey(key: string, segments: number): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) {
    hash ^= key.charCodeAt(i);
    hash = Math.imul(hash, 0x01000193);
  }
  return (hash >>> 0) % segments;
}

/** Keys belong to a user; those of one never meet another's. */
export function segmentOfUserKey({ user_id, key }: { user_id: string; key: string }, segments: number): number {
  return segmentOfKey(`${user_id} ${key}`, segments);
}

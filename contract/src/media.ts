// Media types of our own.

/** The answer to sync in two parts (workers.ts). */
export const twoPartType = 'application/vnd.punctual.sync';

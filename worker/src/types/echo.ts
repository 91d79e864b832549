// The type `echo`: answers its payload, so that a first job has something to run.
import type { Handler } from '@punctual/sdk';

export const echo: Handler = (run) => run.payload;

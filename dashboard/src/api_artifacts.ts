// The calls about artifacts, and the address of what is in one.
import type { Artifact, ArtifactPage, RunArtifact } from '@punctual/contract';
import { at, get, type Query, send } from './request.ts';

export const listArtifacts = (query: Query, signal: AbortSignal) => get<ArtifactPage>('artifacts', signal, query);
export const getArtifact = (sha256: string, signal: AbortSignal) => get<Artifact>(at('artifacts', sha256), signal);
export const deleteArtifact = (sha256: string) => send<{ sha256: string }>('DELETE', at('artifacts', sha256));
export const contentAddress = (sha256: string): string => at('artifacts', sha256, 'content');
export const listRunArtifacts = (runId: string, signal: AbortSignal) =>
  get<{ artifacts: RunArtifact[] }>(at('runs', runId, 'artifacts'), signal);

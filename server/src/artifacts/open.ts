// Chooses where the content of artifacts is kept: in a bucket when one is configured, else in a folder. Called by main.ts.
import { join, resolve } from 'node:path';
import type { Config } from '../config.ts';
import { StartError } from '../start_error.ts';
import { diskStore } from './disk.ts';
import { s3Store } from './s3.ts';
import type { ArtifactStore } from './store.ts';

export function openStore(config: Config, secret: () => Promise<string>): ArtifactStore {
  const { s3_bucket: bucket, s3_access_key_id: accessKeyId, s3_secret_access_key: secretAccessKey } = config;
  if (bucket === null)
    return diskStore({ folder: resolve(config.artifacts_dir ?? join(config.data_dir, 'artifacts')), secret });
  if (accessKeyId === null || secretAccessKey === null)
    throw new StartError(
      'PUNCTUAL_S3_BUCKET is set, so PUNCTUAL_S3_ACCESS_KEY_ID and PUNCTUAL_S3_SECRET_ACCESS_KEY must be too.',
    );
  if (config.s3_endpoint !== null && !/^https?:\/\//.test(config.s3_endpoint))
    throw new StartError('PUNCTUAL_S3_ENDPOINT must be a URL such as https://minio:9000.');
  return s3Store({
    ...{ bucket, accessKeyId, secretAccessKey, endpoint: config.s3_endpoint, region: config.s3_region },
    ...{ pathStyle: config.s3_path_style, prefix: config.s3_prefix },
  });
}

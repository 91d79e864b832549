// A service that speaks S3 and that somebody else wrote, given by the environment, for tests: the configuration of servers
// that keep artifacts there, under names of their own, and what the bucket holds of a file.
import { randomUUID } from 'node:crypto';
import { AwsClient } from 'aws4fetch';

export interface RealS3 {
  config: {
    s3_bucket: string;
    s3_endpoint: string;
    s3_region: string;
    s3_path_style: boolean;
    s3_prefix: string;
    s3_access_key_id: string;
    s3_secret_access_key: string;
  };
  /** The objects and the uploads under way that are about a hash, as their names and sizes; all of this test's without. */
  found(sha256?: string): Promise<{ objects: { key: string; size: number }[]; uploads: string[] }>;
}

const names = ['ENDPOINT', 'BUCKET', 'REGION', 'ACCESS_KEY_ID', 'SECRET_ACCESS_KEY'].map(
  (name) => `PUNCTUAL_TEST_S3_${name}`,
);

/** Why the tests are skipped; undefined when the service is given. */
export const whyNoS3 = names.every((name) => process.env[name])
  ? undefined
  : `no S3 is given: ${names.join(', ')}; see docs/artifacts.md`;

export function realS3(): RealS3 {
  const [endpoint = '', bucket = '', region = '', accessKeyId = '', secretAccessKey = ''] = names.map(
    (name) => process.env[name] ?? '',
  );
  // The bucket is a part of the host name when this says false, and such names lead to the service.
  const isPathStyle = process.env['PUNCTUAL_TEST_S3_PATH_STYLE'] !== 'false';
  // Names that have to be encoded, and that no other run has.
  const prefix = `prüfung 1+1 (ä&=)/${randomUUID()}/`;
  const client = new AwsClient({ accessKeyId, secretAccessKey, region, service: 's3' });
  const list = async (query: string, sha256: string): Promise<string[]> => {
    const url = `${endpoint}/${bucket}?${query}&encoding-type=url&prefix=${encodeURIComponent(prefix + sha256)}`;
    const response = await client.fetch(url);
    const answer = await response.text();
    if (!response.ok) throw new Error(`${response.status} ${answer}`);
    return [...answer.matchAll(/<(Contents|Upload)>(.*?)<\/\1>/gs)].map((match) => match[2] ?? '');
  };
  const tag = (xml: string, name: string): string => new RegExp(`<${name}>(.*?)</${name}>`, 's').exec(xml)?.[1] ?? '';
  const keyOf = (xml: string): string => decodeURIComponent(tag(xml, 'Key').replaceAll('+', '%20'));
  return {
    config: {
      ...{ s3_bucket: bucket, s3_endpoint: endpoint, s3_region: region, s3_path_style: isPathStyle, s3_prefix: prefix },
      ...{ s3_access_key_id: accessKeyId, s3_secret_access_key: secretAccessKey },
    },
    async found(sha256 = '') {
      const [objects, uploads] = await Promise.all([list('list-type=2', sha256), list('uploads=', sha256)]);
      return {
        objects: objects.map((xml) => ({ key: keyOf(xml), size: Number(tag(xml, 'Size')) })),
        uploads: uploads.map(keyOf),
      };
    },
  };
}

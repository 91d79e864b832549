// The API key that Client and Worker send: as given, else that of the environment, so that it need not stand in code.
export function apiKeyOf(given: string | undefined): string | undefined {
  const key = given ?? process.env['PUNCTUAL_API_KEY'];
  if (key === undefined || key === '') return undefined;
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new TypeError('The API key must be one word of printable ASCII, such as pk_….');
  return key;
}

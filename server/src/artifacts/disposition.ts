// The header Content-Disposition of a download: always an attachment, so that no browser runs what somebody uploaded.

/** What browsers and tools call the file they save. */
export function disposition(name: string): string {
  const file = name.split('/').at(-1) ?? name;
  const plain = file.replace(/[^\x20-\x7e]|["\\]/g, '_');
  const encoded = encodeURIComponent(file).replace(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  return `attachment; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

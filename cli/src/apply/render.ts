// Objects as YAML text for an export: the least that means the same, fields in the order of the schema, one object at a time.
// What is secret becomes `!keep`.
import { Document } from 'yaml';
import { isSet } from './alert_kinds.ts';
import { Keep, yamlOptions } from './document.ts';
import { type Fields, isFields } from './fields.ts';
import { type Context, type Kind, without } from './kind.ts';
import { minimal } from './plan.ts';

/** Jobs of one document: a reader holds one document at a time. */
export const max_document_items = 1000;

/** An object as an item of its list. */
export function itemText(kind: Kind, value: Fields, context: Context): string {
  const least = withKeeps(kind, minimal(kind, value, context));
  const names = [...new Set([kind.id, ...Object.keys(kind.schema.properties)])].filter((name) =>
    Object.hasOwn(least, name),
  );
  const item = Object.fromEntries(names.map((name) => [name, least[name]]));
  const text = new Document([item], { ...yamlOptions, aliasDuplicateObjects: false }).toString({
    lineWidth: 0,
    blockQuote: isTame(item) ? 'literal' : false,
  });
  // Only the last end of line goes: others may belong to a text that ends with some.
  return text
    .slice(0, -1)
    .split('\n')
    .map((line) => (line === '' ? line : `  ${line}`).replace(/: !keep $/, ': !keep'))
    .join('\n');
}

/** Whether its texts of several lines can be written as they are: no blanks that an editor, or YAML, would lose. */
function isTame(value: unknown): boolean {
  if (typeof value === 'string')
    return !value.includes('\n') || !/^\s|[ \t]\n|[ \t]$|\n\n$|[^\P{C}\n]|[\u2028\u2029]/u.test(value);
  if (Array.isArray(value)) return value.every(isTame);
  return !isFields(value) || Object.values(value).every(isTame);
}

function withKeeps({ section }: Kind, value: Fields): Fields {
  if (section === 'jobs') return value['encrypted'] === true ? { ...value, payload: new Keep() } : value;
  if (section !== 'channels') return value;
  const { url, smtp, kind, secret } = value;
  const hasSecret = secret === isSet;
  return {
    ...without(value, 'secret'),
    ...(typeof url === 'string' && url.endsWith('…') ? { url: new Keep() } : {}),
    ...(kind === 'webhook' && hasSecret ? { secret: new Keep() } : {}),
    ...(isFields(smtp) && hasSecret ? { smtp: { ...smtp, password: new Keep() } } : {}),
  };
}

/** The documents of a list, the first of a file with the version of the format. */
export function* documentTexts(section: string, items: readonly string[], isFirst: boolean): Generator<string> {
  for (let from = 0; from < items.length; from += max_document_items) {
    const head = isFirst && from === 0 ? 'punctual: 1\n' : '---\n';
    yield `${head}${section}:\n${items.slice(from, from + max_document_items).join('\n')}\n`;
  }
}

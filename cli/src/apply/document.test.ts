// YAML that is to be applied: read one document at a time, refused with its place when it is wrong, never guessed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { documentLimits, documentsOf, FromEnvironment, Keep, type Problem } from './document.ts';

function problemsOf(text: string): Problem[] {
  return [...documentsOf(text, 'f.yaml')].flatMap((document) => ('problems' in document ? document.problems : []));
}

function placesOf(text: string): string[] {
  return problemsOf(text).map(({ file, line, column, message }) => `${file}:${line}:${column} ${message}`);
}

test('documents come one after another, with the places of their parts', () => {
  const documents = [
    ...documentsOf('jobs:\n  - name: a\n---\n# only a remark\n---\nqueues:\n  - name: b\n    x: 1\n', 'f'),
  ];
  const values = documents.map((one) => ('value' in one ? one.value : one));
  assert.deepEqual(values, [{ jobs: [{ name: 'a' }] }, null, { queues: [{ name: 'b', x: 1 }] }]);
  const last = documents[2];
  assert.ok(last !== undefined && 'locate' in last);
  assert.deepEqual(last.locate(['queues', 0, 'x']), { file: 'f', line: 8, column: 5 });
  assert.deepEqual(last.locate(['queues', 0, 'missing']), { file: 'f', line: 7, column: 5 });
});

test('a name that is there twice, a tab, an unknown tag, an alias of nothing: each is refused with line and column', () => {
  assert.deepEqual(placesOf('a: 1\nb: 2\na: 3\n'), ['f.yaml:3:1 this name stands here twice: keep one of them']);
  assert.deepEqual(placesOf('a:\n\t- b\n'), ['f.yaml:2:1 a tab cannot indent: use spaces']);
  assert.match(placesOf('a: !ruby/object x\n')[0] ?? '', /^f\.yaml:1:4 Unresolved tag/);
  assert.match(placesOf('a: *b\n')[0] ?? '', /Unresolved alias/);
  assert.match(placesOf('a: [1, 2\n')[0] ?? '', /^f\.yaml:\d:\d /);
  assert.match(placesOf('? [a, b]\n: c\n')[0] ?? '', /must be text/);
});

test('aliases are followed within bounds, and a bomb of them is refused at once', () => {
  const [document] = [...documentsOf('a: &x {b: 1}\nc: *x\n', 'f')];
  assert.deepEqual(document !== undefined && 'value' in document ? document.value : null, { a: { b: 1 }, c: { b: 1 } });
  const levels = Array.from({ length: 12 }, (_, i) => {
    const inner = i === 0 ? '"lol"' : `*l${i - 1}`;
    return `l${i}: &l${i} [${Array.from({ length: 9 }, () => inner).join(', ')}]`;
  });
  assert.match(placesOf(`${levels.join('\n')}\n`)[0] ?? '', /alias/);
});

test('what is too deep or has too many items is refused before it is read', () => {
  assert.match(placesOf(`a: ${'['.repeat(5000)}${']'.repeat(5000)}`)[0] ?? '', /nested deeper than 80 levels/);
  const many = Array.from({ length: documentLimits.max_items + 1 }, (_, i) => `k${i}: 1`).join('\n');
  assert.match(
    placesOf(`x: 1\nbig:\n${many.replace(/^/gm, '  ')}\n`)[0] ?? '',
    /^f\.yaml:3:\d+ .*more than 10000 items/,
  );
});

test('!keep and !env are read as what they are, and only as they must be written', () => {
  const [document] = [...documentsOf('a: !keep\nb: !env SMTP_PASSWORD\n', 'f')];
  assert.ok(document !== undefined && 'value' in document);
  const { a, b } = document.value as Record<string, unknown>;
  assert.ok(a instanceof Keep && b instanceof FromEnvironment && b.name === 'SMTP_PASSWORD');
  assert.match(placesOf('a: !keep it\n')[0] ?? '', /!keep stands alone/);
  assert.match(placesOf('a: !env 1 2\n')[0] ?? '', /needs the name of a variable/);
});

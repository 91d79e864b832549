// ExecStart as a program and its arguments: quotes, variables and prefixes as systemd reads them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { quote, splitWords, translateCommands } from './exec_start.ts';

const one = (line: string, env: Record<string, string> = {}) => {
  const answer = translateCommands([line], env);
  return 'reason' in answer ? answer.reason : answer.command;
};

test('one command is a program with its arguments; what a shell would read stays as it is', () => {
  assert.deepEqual(one('/usr/bin/backup --all "two words" \'a"b\' x;y | > * \\"q\\"'), [
    ...['/usr/bin/backup', '--all', 'two words', 'a"b', 'x;y', '|', '>', '*', '"q"'],
  ]);
  assert.deepEqual(one('/bin/echo a"b c'), ['/bin/echo', 'a"b', 'c']);
});

test('variables of Environment= are filled in, and $$ and %% are signs', () => {
  const env = { LEVEL: '3', DIR: '/a b', WORDS: ' x  y ' };
  assert.deepEqual(one('/bin/x -l $LEVEL "${DIR}/z" $WORDS $$5 100%%', env), [
    ...['/bin/x', '-l', '3', '/a b/z', 'x', 'y', '$5', '100%'],
  ]);
  assert.deepEqual(one(':/bin/x $LEVEL', env), ['/bin/x', '$LEVEL']);
});

test('several commands run one after the other, and those with - may fail', () => {
  const answer = translateCommands(['-/bin/mkdir /x', "/bin/echo it's"], {});
  assert.deepEqual('command' in answer ? answer.command : answer, [
    ...['/bin/sh', '-c', "{ /bin/mkdir /x || true; } && /bin/echo 'it'\\''s'"],
  ]);
});

test('what only systemd can do is refused', () => {
  assert.match(String(one('/bin/x $MISSING')), /variable MISSING/);
  assert.match(String(one('/bin/x ${MISSING}')), /variable MISSING/);
  assert.match(String(one('/bin/x %i')), /uses %i/);
  assert.match(String(one('@/bin/x y')), /another name/);
  assert.match(String(one('/bin/x "open')), /quote that does not end/);
  assert.match(String(one('/bin/a ; /bin/b')), /several commands in one line/);
  assert.match(String(one('-')), /names no program/);
  assert.deepEqual(translateCommands([], {}), { reason: 'has no ExecStart=' });
});

test('words that are quoted are the same for a shell', () => {
  const words = ["it's", 'a b', '$HOME', '*', '', '"', '\\', '`x`', 'a;b', 'é'];
  const script = `printf '%s\\n' ${words.map(quote).join(' ')}`;
  assert.deepEqual(execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' }).split('\n').slice(0, -1), words);
});

test('a backslash at the end, tabs and empty quotes are read', () => {
  assert.deepEqual(splitWords('a\t"" b\\'), ['a', '', 'b\\']);
  assert.deepEqual(splitWords(''), []);
});

// Secrets never come through, everything else does: by value however the text was cut, and by name.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { isSecretName, Redactor } from './redact.ts';

/** Few letters, so that values overlap with themselves, each other and the text. */
const value = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 4, maxLength: 9 });
const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '\n'), maxLength: 80 });
const cuts = fc.array(fc.nat(200), { maxLength: 12 });

function inPieces(whole: string, at: number[]): string[] {
  const places = [...new Set(at.map((n) => n % (whole.length + 1)))].sort((a, b) => a - b);
  return [0, ...places].map((from, i) => whole.slice(from, [...places, whole.length][i]));
}

function passed(redactor: Redactor, pieces: readonly string[]): string {
  const stream = redactor.stream();
  return pieces.map((piece) => stream.push(piece)).join('') + stream.end();
}

/** Hides every character that stands in an occurrence of a value; marks each stretch once for the values that overlap in it. */
function naive(values: readonly string[], whole: string): string {
  const ranges = values
    .flatMap((one) =>
      Array.from(whole, (_, at) => at).flatMap((at) => (whole.startsWith(one, at) ? [[at, at + one.length]] : [])),
    )
    .sort((a, b) => (a[0] as number) - (b[0] as number)) as [number, number][];
  const merged: [number, number][] = [];
  for (const [from, to] of ranges) {
    const last = merged.at(-1);
    if (last !== undefined && from < last[1]) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  let out = '';
  let at = 0;
  for (const [from, to] of merged) {
    out += `${whole.slice(at, from)}[redacted]`;
    at = to;
  }
  return out + whole.slice(at);
}

describe('values', () => {
  test('a value never comes through, however the text was cut', () => {
    fc.assert(
      fc.property(fc.array(value, { minLength: 1, maxLength: 4 }), text, text, cuts, (values, before, after, at) => {
        const whole = `${before}${values[0]}${after}`;
        const out = passed(new Redactor(values), inPieces(whole, at));
        const rest = out.split('[redacted]');
        for (const one of values) for (const piece of rest) assert.ok(!piece.includes(one), `${one} in ${out}`);
        assert.equal(out, naive([...new Set(values)], whole));
      }),
      { numRuns: 2000 },
    );
  });

  test('a text without secrets comes out unchanged, in order, to its end', () => {
    fc.assert(
      fc.property(
        fc.array(value, { maxLength: 4 }),
        fc.string({ unit: 'grapheme', maxLength: 100 }),
        cuts,
        (values, whole, at) => {
          fc.pre(!values.some((one) => whole.includes(one)));
          assert.equal(passed(new Redactor(values), inPieces(whole, at)), whole);
        },
      ),
    );
  });

  test('a line that is no beginning of a value passes at once', () => {
    const stream = new Redactor(['hunter2-hunter2-hunter2']).stream();
    assert.equal(stream.push('ready\n'), 'ready\n');
    assert.equal(stream.push('it is hunter2-hun'), 'it is ');
    assert.equal(stream.push('ger\n'), 'hunter2-hunger\n');
  });

  test('very short values are not hidden: they would hide everything', () => {
    assert.equal(new Redactor(['a', '', 'abc']).text('abcabc'), 'abcabc');
  });

  test('endless output that repeats a value is hidden without being kept', () => {
    const stream = new Redactor(['aaaa']).stream();
    let out = '';
    for (let i = 0; i < 1000; i++) out += stream.push('aaaaaaa');
    assert.equal(out + stream.end(), '[redacted]');
  });
});

describe('names', () => {
  const hide = (line: string): string => new Redactor().text(line);

  test('what bears the name of a secret is hidden', () => {
    const said: Record<string, string> = {
      'password=hunter2 user=me': 'password=[redacted] user=me',
      'DB_PASSWORD: "a b\\"c", x': 'DB_PASSWORD: "[redacted]", x',
      '{"api_key": "k-1", "n": 1}': '{"api_key": "[redacted]", "n": 1}',
      "clientSecret='s p'": "clientSecret='[redacted]'",
      'Authorization: Bearer abc.def-ghi': 'Authorization: [redacted]',
      'authorization: Basic dTpw, accept: all': 'authorization: [redacted], accept: all',
      'GET /x?access_token=abc&page=2': 'GET /x?access_token=[redacted]&page=2',
      'postgres://me:hunter2@db/app': 'postgres://me:[redacted]@db/app',
    };
    for (const [line, hidden] of Object.entries(said)) {
      assert.equal(hide(line), hidden);
      assert.equal(hide(hidden), hidden, 'hidden twice');
    }
  });

  test('words that only sound like one stay', () => {
    for (const line of [
      'tokens=12',
      'the token is missing',
      'no password given',
      'PWD=/srv/app',
      'secretary: Anna',
      'a : b',
    ])
      assert.equal(hide(line), line);
  });

  test('fields are hidden by their name, whatever they hold, and values within them', () => {
    const redactor = new Redactor(['say "it"']);
    const json = redactor.json({
      user: 'me',
      password: { a: [1] },
      deep: [{ auth_token: 5, none_token: null, x: 'I say "it" now' }],
    });
    assert.equal(
      json,
      '{"user":"me","password":"[redacted]","deep":[{"auth_token":"[redacted]","none_token":null,"x":"I [redacted] now"}]}',
    );
  });

  test('a long line costs little, whatever it holds', () => {
    const took = Array.from({ length: 5 }, () => {
      const began = performance.now();
      for (const piece of ['password', 'a', 'token=', '"', 'x://a:', ' \t', 'secret"'])
        hide(piece.repeat(Math.ceil(8192 / piece.length)));
      return performance.now() - began;
    });
    assert.ok(Math.min(...took) < 1000, `it took ${took.join(', ')} ms`);
  });

  test('names of secrets', () => {
    assert.ok(['API_TOKEN', 'password', 'stripeApiKey', 'x-api-key', 'AWS_SECRET_ACCESS_KEY'].every(isSecretName));
    assert.ok(!['PATH', 'PWD', 'KEYBOARD', 'TOKENS_USED', 'user'].some(isSecretName));
  });
});

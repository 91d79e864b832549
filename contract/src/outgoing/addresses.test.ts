// Which addresses may be called, in every spelling a URL knows.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressRules } from './addresses.ts';

/** As http.ts gets it: the URL parser turns every spelling of an address into one. */
function hostOf(url: string): string {
  return new URL(url).hostname.replace(/^\[|\]$/g, '');
}

const none = addressRules([]);

for (const url of [
  'http://127.0.0.1/',
  'http://127.1/',
  'http://127.255.255.254/',
  'http://2130706433/',
  'http://0x7f000001/',
  'http://0x7f.0.0.1/',
  'http://0177.0.0.1/',
  'http://017700000001/',
  'http://%31%32%37.0.0.1/',
  'http://①②⑦.⓪.⓪.①/',
  'http://127.0.0.1./',
  'http://0/',
  'http://0.0.0.0/',
  'http://10.1.2.3/',
  'http://100.64.0.1/',
  'http://169.254.169.254/',
  'http://0xa9fea9fe/',
  'http://172.16.0.1/',
  'http://172.31.255.255/',
  'http://192.168.1.1/',
  'http://198.18.0.1/',
  'http://224.0.0.1/',
  'http://240.0.0.1/',
  'http://255.255.255.255/',
  'http://[::1]/',
  'http://[::]/',
  'http://[0:0:0:0:0:0:0:1]/',
  'http://[::127.0.0.1]/',
  'http://[::ffff:127.0.0.1]/',
  'http://[::ffff:7f00:1]/',
  'http://[::ffff:a9fe:a9fe]/',
  'http://[::ffff:10.0.0.1]/',
  'http://[64:ff9b::7f00:1]/',
  'http://[2002:7f00:1::]/',
  'http://[2001:0:7f00:1::]/',
  'http://[fc00::1]/',
  'http://[fd12:3456::1]/',
  'http://[fe80::1]/',
  'http://[fec0::1]/',
  'http://[ff02::1]/',
  'http://[2001:db8::1]/',
  'http://[::ffff:0:127.0.0.1]/',
  'http://0300.0250.1.1/',
  'http://0xc0a80101/',
  'http://3232235777/',
  'http://127.0.1/',
  'http://①②⑦。0。0。1/',
  'http://1.1.1.1@127.0.0.1/',
  'http://1.1.1.1:80@127.0.0.1:80/',
  'http://1.1.1.1%2f@127.0.0.1/',
  'http://127.0.0.1\\@1.1.1.1/',
  'http://127.0.0.1#@1.1.1.1/',
  'http://127.0.0.1?@1.1.1.1/',
  'http:127.0.0.1',
  'http:/\\127.0.0.1/',
]) {
  test(`${url} is refused`, () => assert.equal(none.allowsAddress(hostOf(url)), false));
}

for (const url of [
  'http://1.1.1.1/',
  'http://172.32.0.1/',
  'http://100.128.0.1/',
  'http://[2606:4700:4700::1111]/',
  'http://[::ffff:1.1.1.1]/',
]) {
  test(`${url} is allowed`, () => assert.equal(none.allowsAddress(hostOf(url)), true));
}

test('an operator allows addresses, networks and hosts, and nothing else with them', () => {
  const rules = addressRules(['10.1.0.0/16', '127.0.0.1', 'fd00::/8', 'Hooks.internal']);
  assert.equal(rules.allowsAddress('10.1.255.1'), true);
  assert.equal(rules.allowsAddress('10.2.0.1'), false);
  assert.equal(rules.allowsAddress('127.0.0.1'), true);
  assert.equal(rules.allowsAddress('127.0.0.2'), false);
  assert.equal(rules.allowsAddress('fd12::1'), true);
  assert.equal(rules.allowsAddress('fc00::1'), false);
  assert.equal(rules.allowsHost('hooks.internal'), true);
  assert.equal(rules.allowsHost('hooks.internal.'), true);
  assert.equal(rules.allowsHost('evil.hooks.internal'), false);
});

test('an entry that is no host, address or network is an error that says which', () => {
  assert.throws(() => addressRules(['10.0.0.0/33']), /"10\.0\.0\.0\/33" in PUNCTUAL_HTTP_ALLOW/);
  assert.throws(() => addressRules(['10.0.0/8']), /"10\.0\.0\/8"/);
  assert.throws(() => addressRules(['http://a.b']), /"http:\/\/a\.b"/);
  assert.throws(() => addressRules(['a.b:80']), /"a\.b:80"/);
});

for (const address of [
  '::1%lo',
  'fe80::1%eth0',
  '::ffff:127.0.0.1%1',
  '2606:4700:4700::1111%eth0',
  '127.0.0.1%lo',
  '',
  'x',
]) {
  test(`a resolver's answer ${JSON.stringify(address)} is refused`, () =>
    assert.equal(none.allowsAddress(address), false));
}

for (const url of [
  'http://[fe80::1%25eth0]/',
  'http://[::1%25lo]/',
  'http://127.0.0.1%00.example.com/',
  'http://256.256.256.256/',
]) {
  test(`${url} is no URL at all`, () => assert.equal(URL.canParse(url), false));
}

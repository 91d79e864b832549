// Checkers are compiled when they are first used, so that a schema that cannot be must be found here.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { routes } from '@punctual/contract';
import { checksOf } from './validation.ts';

test('every schema of the contract can be checked', () => {
  for (const [name, route] of Object.entries(routes)) {
    for (const [part, check] of Object.entries(checksOf(route))) {
      if (check !== null) assert.ok(Array.isArray(check({})), `${name} ${part}`);
    }
  }
});

// The table of settings is that of the program.

import assert from 'node:assert/strict';
import test from 'node:test';
import { DEFAULTS } from '../../packages/serve/lib/registry/config.js';
import { read } from './pages.mjs';

test('docs/server-reference.md lists each setting of a model with its default', () => {
  const rows = [...read('docs/server-reference.md').matchAll(/^\| `(\w+)` \| `(.+?)` \|/gm)].map(([, name, value]) => [name, JSON.parse(value)]);
  assert.deepEqual(Object.fromEntries(rows), DEFAULTS);
});

// The command line of the runner; its runs need the tests of webnn-polyfill, which are not ours to copy.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '../../lib/folders.mjs';
import { runNode } from '../../lib/processes.mjs';
import { CONTRADICTIONS } from './contradictions.mjs';

const run = (...args) => runNode([fileURLToPath(new URL('run.mjs', import.meta.url)), ...args]);

test('wrong command lines say what is right', async (t) => {
  const folder = temporaryFolder(t, { 'test/ops/relu.js': '', 'test/utils.js': '' });
  for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
    [[], /^--polyfill DIR is missing$/m],
    [['--polyfill', folder], /^--polyfill: .* has no test\/api$/m],
    [['--polyfill', folder, '--draft', '2022'], /^--draft is "2022", expected 2021 or 2024$/m],
    [['--polyfil', folder], /Unknown option '--polyfil'/],
  ])) {
    const { code, stderr } = await run(...args);
    assert.equal(code, 2, stderr);
    assert.match(stderr, message);
    assert.match(stderr, /^usage: npm run suite -- polyfill/m);
  }
  const { code, stdout } = await run('--help');
  assert.equal(code, 0);
  assert.match(stdout, /--filter RE/);
});

test('every listed test has a reason', () => {
  for (const { reason, title, message } of Object.values(CONTRADICTIONS).flat()) {
    assert.ok(reason.length > 20 && title instanceof RegExp && message instanceof RegExp, reason);
  }
});

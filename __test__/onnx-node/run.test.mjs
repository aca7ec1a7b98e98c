import assert from 'node:assert/strict';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { runNode } from '../lib/processes.mjs';
import { temporaryFolder } from '../lib/folders.mjs';

const PROGRAM = fileURLToPath(new URL('run.mjs', import.meta.url));
const SCRIPT = fileURLToPath(new URL('../../scripts/suites/onnx-models.mjs', import.meta.url));

/** A folder with an index of tests. */
const folder = (t, index) => temporaryFolder(t, { 'index.json': index });

/** Runs a program to its end. */
const run = (program, ...args) => runNode([program, ...args]);

test('wrong usage ends with exit status 2 and the usage', async (t) => {
  const directory = folder(t, []);
  for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
    [[], /expected one folder, got 0/],
    [['absent'], /absent.index\.json does not exist/],
    [[directory, '--jobs', '0'], /--jobs is "0", expected a positive integer/],
    [[directory, '--filter', '('], /--filter: Invalid regular expression/],
    [[directory, '--bogus'], /Unknown option '--bogus'/],
  ])) {
    const { code, stderr } = await run(PROGRAM, ...args);
    assert.equal(code, 2);
    assert.match(stderr, message);
    assert.match(stderr, /usage: /);
  }
});

test('--help prints the usage', async () => {
  const { code, stdout } = await run(PROGRAM, '--help');
  assert.equal(code, 0);
  assert.match(stdout, /^usage: .*--filter.*--json.*--jobs/s);
});

test('that no test ran is a failure, and so is a table that names tests which do not exist', async (t) => {
  const { code, stdout } = await run(PROGRAM, folder(t, []));
  assert.equal(code, 1);
  assert.match(stdout, /^table of inexpressible tests: test_\w+: there is no such test \("/m);
  assert.match(stdout, /^no test ran$/m);
});

test('the benchmark models: wrong usage and unknown names end with exit status 2', async () => {
  for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
    [['--bogus'], /Unknown option '--bogus'.*\nusage: /s],
    [['--only', 'resnet50,absent'], /--only: there is no model absent; there are .*mobilenet_v2, /],
  ])) {
    const { code, stderr } = await run(SCRIPT, ...args);
    assert.equal(code, 2);
    assert.match(stderr, message);
  }
});

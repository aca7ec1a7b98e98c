import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('run.mjs', import.meta.url));
const SCRIPT = fileURLToPath(new URL('../../scripts/onnx-models.mjs', import.meta.url));

/** A folder with an index of tests. */
function folder(t, index) {
  const directory = mkdtempSync(join(tmpdir(), 'webnn-onnx-node-'));
  t.after(() => rmSync(directory, { recursive: true }));
  writeFileSync(join(directory, 'index.json'), JSON.stringify(index));
  return directory;
}

/** Runs a program; its exit status and its two streams. */
function run(program, ...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });
  return { status, stdout, stderr };
}

test('wrong usage ends with exit status 2 and the usage', (t) => {
  const directory = folder(t, []);
  for (const [args, message] of [
    [[], /expected one folder, got 0/],
    [['absent'], /absent.index\.json does not exist/],
    [[directory, '--jobs', '0'], /--jobs is "0", expected a positive integer/],
    [[directory, '--filter', '('], /--filter: Invalid regular expression/],
    [[directory, '--bogus'], /Unknown option '--bogus'/],
  ]) {
    const { status, stderr } = run(PROGRAM, ...args);
    assert.equal(status, 2);
    assert.match(stderr, message);
    assert.match(stderr, /usage: /);
  }
});

test('--help prints the usage', () => {
  const { status, stdout } = run(PROGRAM, '--help');
  assert.equal(status, 0);
  assert.match(stdout, /^usage: .*--filter.*--json.*--jobs/s);
});

test('that no test ran is a failure, and so is a table that names tests which do not exist', (t) => {
  const { status, stdout } = run(PROGRAM, folder(t, []));
  assert.equal(status, 1);
  assert.match(stdout, /^table of inexpressible tests: test_\w+: there is no such test \("/m);
  assert.match(stdout, /^no test ran$/m);
});

test('the benchmark models: wrong usage and a missing generator end with exit status 2', () => {
  for (const [args, message] of [
    [['--bogus'], /Unknown option '--bogus'.*\nusage: /s],
    [['--generator', 'absent.py'], /The program that writes the models is missing: .*absent\.py\nName it with --generator FILE/],
  ]) {
    const { status, stderr } = run(SCRIPT, ...args);
    assert.equal(status, 2);
    assert.match(stderr, message);
  }
});

// The form of the examples, which scripts/suites/examples.mjs runs: each is a folder that a user can copy.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { differenceOf, findExamples } from '../../scripts/suites/examples.mjs';
import { root } from '../../scripts/process.mjs';

const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const index = readFileSync(path.join(root, 'docs/README.md'), 'utf8');

/** Lines of a program that somebody reads before copying it. */
const MOST_LINES = 130;

const examples = findExamples();

test('there are examples', () => assert.ok(examples.length >= 12, `${examples.length}`));

for (const { name, folder, manifest } of examples) {
  test(`examples/${name} has the form of an example`, () => {
    const read = (file) => readFileSync(path.join(folder, file), 'utf8');
    assert.equal(manifest.name, `webnn-example-${name}`);
    assert.deepEqual([manifest.private, manifest.type], [true, 'module']);
    assert.equal(manifest.dependencies?.['webnn-node'], `^${version}`);
    assert.ok(read('expected.txt').endsWith('\n'));
    const readme = read('README.md');
    assert.match(readme, /npm install\nnpm start/);
    assert.ok(index.includes(`(../examples/${name}/README.md)`), 'docs/README.md lists it');
    if (manifest.example?.notRun !== undefined) assert.match(readme, /CI do \*\*not\*\* run/);
    if (existsSync(path.join(folder, 'requirements.txt'))) assert.equal(manifest.scripts?.prestart, 'node fetch-model.mjs');
    const programs = readdirSync(folder).filter((file) => ['index.mjs', 'main.mjs', 'main.ts'].includes(file));
    assert.equal(programs.length, 1, programs.join());
    const lines = read(programs[0]).split('\n').length;
    assert.ok(lines <= MOST_LINES, `${programs[0]} has ${lines} lines`);
  });

  test(`examples/${name} imports nothing from outside of its folder`, () => {
    const programs = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
      (file) => /\.(m?js|cjs|ts)$/.test(file) && !file.includes('node_modules'),
    );
    const outside = programs.flatMap((file) =>
      [...readFileSync(path.join(folder, file), 'utf8').matchAll(/(?:from|import|import\(|new URL\() ?'(\.\.?\/[^']*)'/g)]
        .filter(([, to]) => !path.join(folder, file, '..', to).startsWith(folder))
        .map(([, to]) => `${file}: ${to}`),
    );
    assert.deepEqual(outside, []);
  });
}

test('copies of a file are the same file', () => {
  const copies = {};
  for (const { folder } of examples) {
    for (const name of ['digits.onnx', 'fetch-model.mjs', 'speech.wav']) {
      if (existsSync(path.join(folder, name))) (copies[name] ??= []).push(path.join(folder, name));
    }
  }
  for (const [name, [first, ...others]] of Object.entries(copies)) {
    assert.ok(others.length > 0, name);
    for (const other of others) assert.ok(readFileSync(other).equals(readFileSync(first)), `${other} differs from ${first}`);
  }
});

test('a difference names the line, and what was expected', () => {
  assert.equal(differenceOf('a\nb\n', 'a\nb\n'), '');
  assert.equal(differenceOf('a\nb\n', 'a\nc\n'), 'line 2: expected "b"\n        got      "c"');
  assert.match(differenceOf('a\n', 'a\nb\n'), /^line 2: expected ""\n +got +"b"\nline 3: expected undefined/);
});

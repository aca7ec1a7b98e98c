// The examples, which scripts/suites/examples.mjs runs: each works in a checkout, and beside it.

import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { differenceOf, findExamples } from '../../scripts/suites/examples.mjs';
import { npmResult, root } from '../../scripts/process.mjs';
import { temporaryFolder } from '../lib/folders.mjs';
import { defined } from '../lib/types.mjs';

const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const index = readFileSync(path.join(root, 'docs/README.md'), 'utf8');

const examples = findExamples();

for (const { name, folder, manifest } of examples) {
  test(`examples/${name} is a project of its own, of this version`, () => {
    assert.equal(manifest.name, `webnn-example-${name}`);
    assert.deepEqual([manifest.private, manifest.type], [true, 'module']);
    assert.equal(manifest.dependencies?.['webnn-node'], `^${version}`);
    assert.ok(index.includes(`(../examples/${name}/README.md)`), 'docs/README.md lists it');
    if (existsSync(path.join(folder, 'requirements.txt'))) assert.match(manifest.scripts?.prestart ?? '', /node fetch-model\.mjs$/);
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

for (const { name, folder, manifest } of examples.filter(({ manifest }) => manifest.example?.files !== undefined)) {
  test(`examples/${name} gets files of others before it starts, unless it has them`, (t) => {
    const files = Object.entries(defined(manifest.example?.files));
    const here = path.join(temporaryFolder(t), 'examples', name);
    mkdirSync(here, { recursive: true });
    writeFileSync(path.join(here, 'package.json'), JSON.stringify({ ...manifest, scripts: { copy: manifest.scripts?.prestart?.split(' && ')[0] } }));
    for (const [, from] of files) {
      mkdirSync(path.join(here, from, '..'), { recursive: true });
      cpSync(path.join(folder, from), path.join(here, from));
    }
    const copy = () => npmResult(['run', 'copy'], { cwd: here });
    assert.equal(copy().status, 0);
    for (const [to, from] of files) {
      assert.ok(readFileSync(path.join(here, to)).equals(readFileSync(path.join(folder, from))), to);
      writeFileSync(path.join(here, to), 'own');
      rmSync(path.join(here, from));
    }
    assert.equal(copy().status, 0);
    for (const [to] of files) assert.equal(readFileSync(path.join(here, to), 'utf8'), 'own');
    // Every script that runs the program gets them.
    const { start: _, ...others } = defined(manifest.scripts);
    for (const script of Object.keys(others).filter((one) => !one.startsWith('pre'))) assert.equal(others[`pre${script}`], others.prestart, script);
  });
}

test('a difference names the line, and what was expected', () => {
  assert.equal(differenceOf('a\nb\n', 'a\nb\n'), '');
  assert.equal(differenceOf('a\nb\n', 'a\nc\n'), 'line 2: expected "b"\n        got      "c"');
  assert.match(differenceOf('a\n', 'a\nb\n'), /^line 2: expected ""\n +got +"b"\nline 3: expected undefined/);
});

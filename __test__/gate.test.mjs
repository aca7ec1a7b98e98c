// The gate, `.ci/run`: its steps and tiers, what is not run again, and what happens after a failure.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test, { describe } from 'node:test';
import { performAll, selectSteps, summary } from '../scripts/gate.mjs';
import { PassedSteps } from '../scripts/gate/passed.mjs';
import { STEPS, stepsOf } from '../scripts/gate/steps.mjs';
import { root } from '../scripts/process.mjs';
import { temporaryFolder } from './lib/folders.mjs';
import { defined } from './lib/types.mjs';

const namesOf = (steps) => steps.map(({ name }) => name);
const selected = (...names) => namesOf(selectSteps(names));

/** Runs Git in a folder. */
function git(folder, ...args) {
  const { status, stdout, stderr } = spawnSync('git', args, { cwd: folder, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return stdout;
}

/** Images of Node that are as small as Alpine's have no Git; there, nothing is kept. */
const withGit = { skip: spawnSync('git', ['--version']).status !== 0 && 'there is no Git' };

/** A checkout with two files, and the results of the gate in it. */
function checkout(t) {
  const folder = temporaryFolder(t, { 'src/a.txt': 'a', 'pages/b.txt': 'b' });
  git(folder, 'init', '--quiet');
  writeFileSync(join(folder, '.gitignore'), '/target\n');
  const write = (file, text) => writeFileSync(join(folder, file), text);
  return { folder, write, results: () => new PassedSteps(folder) };
}

describe('the steps', () => {
  test('are those of a tier and of the tiers before it, or those that are named after what they need', () => {
    assert.deepEqual(selected(), selected('full'));
    const [quick, full, all] = ['quick', 'full', 'all'].map((tier) => selected(tier));
    assert.ok(quick.every((name) => full.includes(name)) && full.every((name) => all.includes(name)));
    assert.ok(quick.length < full.length && full.length < all.length);
    for (const name of ['format', 'lint', 'types', 'clippy', 'rust', 'js']) assert.ok(quick.includes(name), name);
    assert.deepEqual(selected('bench', 'format'), ['format', 'addon', 'onnx-models', 'bench']);
    assert.deepEqual(
      selected('quick', 'loom'),
      namesOf(STEPS).filter((name) => quick.includes(name) || name === 'loom'),
    );
    assert.throws(() => selectSteps(['formt']), { message: /^There is no step formt; there are format, lint, /, exitCode: 2 });
  });

  test('stand behind those that they need, which are of the same tier', () => {
    for (const [index, { name, needs = [], tier }] of STEPS.entries()) {
      const before = tier === undefined ? STEPS.slice(0, index) : STEPS.slice(0, index).filter((step) => stepsOf(tier).includes(step));
      for (const needed of needs) assert.ok(namesOf(before).includes(needed), `${name} needs ${needed}`);
    }
  });

  test('depend on files that there are', withGit, () => {
    for (const { name, inputs = [] } of STEPS) {
      for (const pattern of inputs.filter((one) => !one.startsWith(':!'))) assert.notEqual(git(root, 'ls-files', pattern), '', `${name}: ${pattern}`);
    }
  });

  test('are run by the workflows where their data are in a repository', () => {
    const stepsIn = (file) => {
      const workflow = readFileSync(join(root, '.github/workflows', file), 'utf8');
      return [...workflow.matchAll(/^ +(?:- run: \.ci\/run|step:) ([^"\n]*)$/gm)].flatMap(([, words]) => words.match(/[\w-]+/g) ?? []);
    };
    // The workflows have machines for what is emulated elsewhere.
    /** @type {(step: { needs?: string[], outside?: string[], release?: string }) => boolean} */
    const isHere = ({ needs = [], outside = [], release }) =>
      release === undefined && outside.every((name) => ['wpt', 'draft'].includes(name)) && STEPS.filter(({ name }) => needs.includes(name)).every(isHere);
    const here = STEPS.filter(isHere);
    // The steps js and gpu build what these build.
    const implied = ['addon', 'rust-build'];
    const full = here.filter(({ tier }) => tier !== 'all');
    assert.deepEqual([...new Set([...stepsIn('checks.yml'), ...implied])].sort(), namesOf(full).sort());
    assert.deepEqual(stepsIn('nightly.yml').sort(), namesOf(here.filter(({ tier }) => tier === 'all')).sort());
  });
});

describe('a result holds', withGit, () => {
  const step = { name: 'one', title: '', inputs: ['src'], run: ['true'] };

  test('while the files that it depends on are the same, whatever others are', (t) => {
    const { folder, write, results } = checkout(t);
    const key = defined(results().keyOf(step));
    results().keep('one', { key, ended: '2026-01-01T00:00:00Z', seconds: 3 });
    assert.equal(results().find(step, results().keyOf(step))?.seconds, 3);
    write('pages/b.txt', 'changed');
    assert.equal(results().keyOf(step), key);
    write('src/a.txt', 'changed');
    assert.equal(results().find(step, results().keyOf(step)), undefined);
    write('src/a.txt', 'a');
    assert.equal(results().keyOf(step), key);
    write('src/new.txt', '');
    assert.notEqual(results().keyOf(step), key, 'a file that is not yet known to Git');
    rmSync(join(folder, 'src/new.txt'));
    git(folder, 'add', '.');
    assert.equal(results().keyOf(step), key);
    rmSync(join(folder, 'src/a.txt'));
    assert.notEqual(results().keyOf(step), key, 'a file that is gone');
  });

  test('while the command, what it needs and the environment are the same', (t) => {
    const { results, write } = checkout(t);
    const before = { name: 'before', title: '', inputs: ['pages'], run: ['true'] };
    const needing = { ...step, needs: ['before'] };
    const key = results().keyOf(needing, [before, needing]);
    assert.equal(results().keyOf(needing, [before, needing]), key);
    assert.notEqual(results().keyOf({ ...needing, run: ['false'] }, [before, needing]), key);
    process.env.WEBNN_TEST_OF_THE_GATE = '1';
    assert.notEqual(results().keyOf(needing, [before, needing]), key);
    delete process.env.WEBNN_TEST_OF_THE_GATE;
    write('pages/b.txt', 'changed');
    assert.notEqual(results().keyOf(needing, [before, needing]), key);
  });

  test('while its products are there; and never that of a build, of a step that failed since, or without Git', (t) => {
    const { folder, results } = checkout(t);
    const key = defined(results().keyOf(step));
    const passed = { key, ended: '2026-01-01T00:00:00Z', seconds: 3 };
    results().keep('one', passed);
    assert.equal(results().find({ ...step, always: true }, key), undefined);
    const producing = { ...step, products: ['target/models'] };
    assert.equal(results().find(producing, key), undefined);
    mkdirSync(join(folder, 'target/models'));
    assert.deepEqual(results().find(producing, key), passed);
    results().keep('one', undefined);
    assert.equal(results().find(step, key), undefined);
    rmSync(join(folder, '.git'), { recursive: true });
    assert.equal(results().keyOf(step), undefined);
  });
});

describe('a run', withGit, () => {
  const pass = (name, more = {}) => ({ name, title: '', run: [`node --eval "${name}"`.replace(name, '0')], ...more });
  const fail = (name, more = {}) => ({ name, title: '', run: ['node --eval "process.exit(3)"'], ...more });
  const steps = [pass('one', { beside: true }), fail('two'), pass('three', { needs: ['two'] }), pass('four'), fail('five')];
  const resultsOf = (rows) => Object.fromEntries(rows.map(({ name, result }) => [name, result]));

  test('ends at the first step that fails, after those that run beside it', async (t) => {
    const rows = [];
    await assert.rejects(performAll(steps, { keepGoing: false, fresh: false, passed: checkout(t).results() }, rows), { exitCode: 3 });
    assert.deepEqual(resultsOf(rows), { two: 'FAILED', one: 'passed' });
  });

  test('goes on with --keep-going, but for steps that need one that failed, and fails in the end', async (t) => {
    const rows = [];
    const run = performAll(steps, { keepGoing: true, fresh: false, passed: checkout(t).results() }, rows);
    await assert.rejects(run, { message: 'failed: two, three, five', exitCode: 1 });
    assert.deepEqual(resultsOf(rows), { two: 'FAILED', three: 'not run: without two', four: 'passed', five: 'FAILED', one: 'passed' });
  });

  test('does not run again what has passed, and says so; with --fresh it does', async (t) => {
    const { folder, results } = checkout(t);
    const step = {
      name: 'counts',
      title: '',
      inputs: ['src'],
      run: [`node --eval "fs.appendFileSync(process.env.FILE, '.')"`],
      env: { FILE: join(folder, 'target', 'count') },
    };
    mkdirSync(join(folder, 'target'));
    const run = async (fresh) => {
      const rows = [];
      await performAll([step], { keepGoing: false, fresh, passed: results() }, rows);
      return [readFileSync(step.env.FILE, 'utf8').length, rows[0].result];
    };
    assert.deepEqual(await run(false), [1, 'passed']);
    const [count, result] = await run(false);
    assert.equal(count, 1);
    assert.match(result, /^passed before, unchanged since \(20\d\d-\d\d-\d\d \d\d:\d\d UTC, in 0:\d\d\)$/);
    assert.deepEqual(await run(true), [2, 'passed']);
    writeFileSync(join(folder, 'src/a.txt'), 'changed');
    assert.deepEqual(await run(false), [3, 'passed']);
  });

  test('has a summary with a line for each step, and one for all', () => {
    const rows = [
      { name: 'format', result: 'passed', seconds: 3.9 },
      { name: 'js', result: 'FAILED', seconds: 125 },
      { name: 'models', result: 'not run' },
    ];
    assert.equal(summary(rows, 128.9), 'format    0:03  passed\njs        2:05  FAILED\nmodels       –  not run\ntotal     2:08');
  });
});

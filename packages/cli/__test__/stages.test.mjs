// Commands on a model that is cut, because its data decide about sizes.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { FLOAT, INT64, node, value, weight, writeModel } from '../../../__test__/onnx/model-writer.mjs';
import { webnn, webnnJson } from './command.mjs';
import { defined } from '../../../__test__/lib/types.mjs';

/** Arguments for five elements. Two are positive. */
const INPUT = ['--input', 'x=1,-1,2,-3,0'];

const folder = temporaryFolder(undefined, {
  'cut.onnx': writeModel({
    inputs: [value('x', FLOAT, ['n'])],
    outputs: [value('y', FLOAT)],
    weights: [weight('axis', [1], BigInt64Array.of(0n))],
    nodes: [
      node('Relu', ['x'], ['r'], {}, 'positive'),
      node('NonZero', ['r'], ['places'], {}, 'finds'),
      node('Squeeze', ['places', 'axis'], ['at']),
      node('Gather', ['x', 'at'], ['y']),
    ],
  }),
  'at-once.onnx': writeModel({
    inputs: [value('x', FLOAT, [5])],
    outputs: [value('places', INT64)],
    nodes: [node('NonZero', ['x'], ['places'], {}, 'finds')],
  }),
});
const cut = path.join(folder, 'cut.onnx');
const atOnce = path.join(folder, 'at-once.onnx');

test('inspect: work of the first stage, and the cuts', async () => {
  const { compiled, cuts } = await webnnJson('inspect', cut, '--free-dimension', 'n=5');
  assert.equal(compiled.steps, 1);
  assert.deepEqual(
    cuts.map(({ name, operator }) => [name, operator]),
    [['finds', 'NonZero']],
  );
  const { stdout } = await webnn('inspect', cut, '--free-dimension', 'n=5');
  assert.match(stdout, /^Compiled \(the first stage\)$/m);
  assert.match(stdout, /^Cut at 1 node\n.*\nfinds +NonZero +\S/m);
  assert.equal((await webnnJson('inspect', atOnce)).compiled, null);
});

test('view: the graph of the first stage, and the cuts with their reasons', async () => {
  const page = path.join(folder, 'view.html');
  const { code, stdout, stderr } = await webnn('view', cut, '-o', page, ...INPUT);
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /: 1 node, 1 after compilation\nit shows the first stage: 3 nodes of the model run after 1 cut\n$/);
  const data = JSON.parse(defined(/<script type="application\/json" id="data">(.*?)<\/script>/s.exec(await readFile(page, 'utf8')))[1]);
  assert.match(data.subtitle, /^First stage: 1 node became 1/);
  assert.deepEqual(
    data.sides.source.items.filter(({ kind }) => kind === 'node').map(({ label }) => label),
    ['positive'],
  );
  const [first, cuts, file] = data.overview;
  assert.deepEqual([first.heading, cuts.heading, file.heading], ['Graph of the first stage', 'Cuts', 'Model file']);
  const [{ reason }] = (await webnnJson('inspect', cut)).cuts;
  assert.deepEqual(cuts.facts, [
    ['finds', `NonZero: ${reason}`],
    ['Nodes that run later', '3'],
  ]);
});

test('view: a model that is cut before anything is computed has no graph to show', async () => {
  const { code, stderr } = await webnn('view', atOnce, '-o', path.join(folder, 'none.html'));
  assert.equal(code, 1);
  assert.match(stderr, /there is nothing to show: the model is cut before anything is computed\n\[finds\] NonZero: \S/);
});

test('run and bench run all stages', async () => {
  const {
    outputs: [y],
  } = await webnnJson('run', cut, ...INPUT);
  assert.deepEqual([y.shape, y.first], [[2], [1, 2]]);
  for (const args of [[cut, ...INPUT], [atOnce]]) {
    // Not `webnnJson`: a busy machine is noted on standard error.
    const { code, stdout } = await webnn('bench', ...args, '--runs', '3', '--threads', '1', '--json');
    assert.equal(code, 0);
    const {
      engines: [engine],
    } = JSON.parse(stdout);
    assert.equal(engine.runs, 3);
    assert.match(engine.processor, /^\w+, 1 thread$/);
  }
});

test('profiles need a single graph', async () => {
  for (const args of [
    ['profile', cut, ...INPUT],
    ['view', cut, '-o', path.join(folder, 'profile.html'), '--profile', ...INPUT],
  ]) {
    const { code, stderr } = await webnn(...args);
    assert.equal(code, 1);
    assert.match(stderr, /there is no single graph to profile; "webnn-node bench" times whole runs, "webnn-node view" shows the first stage/);
  }
});

// Commands on models whose sizes have no real names, or names that contradict themselves, and on optional inputs.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { FLOAT, node, value, weight, writeModel } from '../../../__test__/onnx/model-writer.mjs';
import { formatNpy } from '../lib/npy.mjs';
import { webnn, webnnJson } from './command.mjs';

const folder = temporaryFolder(undefined, {
  'placeholders.onnx': writeModel({
    inputs: [value('x', FLOAT, ['?', 3, '?', '?'])],
    outputs: [value('y', FLOAT, ['?', 3, '?', '?'])],
    nodes: [node('Relu', ['x'], ['y'])],
  }),
  'square.onnx': writeModel({ inputs: [value('x', FLOAT, ['n', 'n'])], outputs: [value('y', FLOAT, ['n', 'n'])], nodes: [node('Relu', ['x'], ['y'])] }),
  'wide.onnx': writeModel({
    inputs: [value('x', FLOAT, ['width']), value('d', FLOAT, ['width'])],
    outputs: [value('y', FLOAT), value('z', FLOAT)],
    nodes: [node('Relu', ['x'], ['y']), node('Neg', ['d'], ['z'])],
  }),
  'optional.onnx': writeModel({
    inputs: [value('x', FLOAT, ['n']), value('w', FLOAT, [1])],
    outputs: [value('y', FLOAT)],
    weights: [weight('w', [1], Float32Array.of(2))],
    nodes: [node('Mul', ['x', 'w'], ['y'])],
  }),
});
const model = (/** @type {string} */ name) => path.join(folder, `${name}.onnx`);

/** Writes a list of numbers to a file. */
async function list(/** @type {number[]} */ ...numbers) {
  const file = path.join(folder, `${numbers.length}.npy`);
  await writeFile(file, formatNpy({ dataType: 'float32', shape: [numbers.length], data: Float32Array.from(numbers) }));
  return file;
}

test('every option is advised once, and the advice works', async () => {
  for (const [name, advice] of [
    ['placeholders', ['x_dim_0', 'x_dim_2', 'x_dim_3']],
    ['square', ['n']],
  ]) {
    const expected = /** @type {string[]} */ (advice).map((dimension) => `--free-dimension ${dimension}=1`).join(' ');
    const refused = await webnn('run', model(String(name)), '--input', 'random');
    assert.equal(refused.code, 2);
    assert.equal(refused.stderr.split('as in ')[1].split('\n')[0], expected);
    const { stdout } = await webnn('inspect', model(String(name)));
    assert.ok(stdout.endsWith(`For multiply-adds and memory, give sizes, as in ${expected}\n`), stdout);
    const sizes = expected.replaceAll('=1', '=2').split(' ');
    const { outputs } = await webnnJson('run', model(String(name)), '--input', 'random', ...sizes);
    assert.equal(outputs[0].shape[0], 2);
    assert.ok((await webnnJson('inspect', model(String(name)), ...sizes)).compiled);
  }
});

test('files of different sizes run, whatever the names say', async () => {
  const [x, d] = [await list(1, 2), await list(3, 4, 5)];
  const { code, stdout, stderr } = await webnn('run', model('wide'), '--input', `x=${x}`, '--input', `d=${d}`, '--json');
  assert.equal(code, 0, stderr);
  assert.deepEqual(
    JSON.parse(stdout).outputs.map(({ shape }) => shape),
    [[2], [3]],
  );
  assert.match(stderr, /the dimension "width" is 2 in "x" at \[0\], 3 in "d" at \[0\]/);
  // A size that is set is a promise, and the message names the option.
  const refused = await webnn('run', model('wide'), '--input', `x=${x}`, '--input', `d=${d}`, '--free-dimension', 'width=2');
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /input "d" has shape \[3\], expected \[width=2\], since --free-dimension sets width/);
});

test('optional inputs are shown, and can be given by name', async () => {
  const { inputs, optionalInputs } = await webnnJson('inspect', model('optional'));
  assert.deepEqual([inputs.map(({ name }) => name), optionalInputs.map(({ name }) => name)], [['x'], ['w']]);
  assert.match((await webnn('inspect', model('optional'))).stdout, /1 optional input\n.*\n *w +float32 +\[1\]/);
  const first = async (/** @type {string[]} */ ...args) => (await webnnJson('run', model('optional'), '--input', ...args)).outputs[0].first;
  assert.deepEqual(await first('1,2'), [2, 4]);
  assert.deepEqual(await first('x=1,2', '--input', 'w=10'), [10, 20]);
});

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import test, { before } from 'node:test';
import { readNpy } from '../../packages/cli/lib/npy.mjs';
import { temporaryFolder } from '../lib/folders.mjs';
import { webnn, webnnJson } from '../../packages/cli/__test__/command.mjs';
import { root } from '../../scripts/process.mjs';
import { maxAbsDifference } from '../lib/numbers.mjs';
import { numbersOf } from 'webnn-node-text/elements';

const FOLDER = path.resolve(root, '../shared/models/squeezenet1.0');

/** Against an independent runtime in float32; probabilities are at most 1. */
const TOLERANCE = 1e-4;

const model = (name) => path.join(FOLDER, name);

const folder = temporaryFolder();
before(() => {
  assert.ok(existsSync(FOLDER), `the model files are missing: expected ${FOLDER} beside the repository`);
});

test('run: the photograph shows a lesser panda, however it is prepared', async () => {
  const args = ['run', model('model.onnx'), '--input', model('test.jpg'), '--labels', model('labels.txt'), '--top', '3'];
  for (const preparation of [[], ['--mean', '0.5', '--std', '0.5', '--stretch']]) {
    const { code, stdout, stderr } = await webnn(...args, ...preparation);
    assert.equal(stderr, '');
    assert.equal(code, 0);
    const lines = stdout.split('\n');
    assert.equal(lines[0], 'output: probabilities from the model');
    assert.match(lines[2], /^lesser panda +(9\d|100)\.\d % +388$/);
    assert.equal(lines.length, 6);
  }
});

test('run: the output agrees with the reference', async () => {
  const { code } = await webnn('run', model('model.onnx'), '--input', model('input.npy'), '--output-dir', folder);
  assert.equal(code, 0);
  const got = await readNpy(path.join(folder, 'output.npy'));
  const expected = await readNpy(model('output.npy'));
  assert.deepEqual(got.shape, expected.shape);
  const difference = maxAbsDifference(numbersOf(got), numbersOf(expected));
  assert.ok(difference < TOLERANCE, `largest difference ${difference}`);
});

test('inspect: parameters and work of SqueezeNet 1.0', async () => {
  const { parameters, compiled, operators } = await webnnJson('inspect', model('model.onnx'));
  // https://arxiv.org/abs/1602.07360: 1,248,424 for 1,000 classes, one class more with 512 weights and a bias, and the two
  // sizes that a Reshape takes.
  assert.equal(parameters, 1_248_424 + 513 + 2);
  assert.ok(compiled.multiplyAdds > 0.7e9 && compiled.multiplyAdds < 0.95e9, String(compiled.multiplyAdds));
  assert.equal(operators.Conv, 26);
});

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import path from 'node:path';
import test, { before } from 'node:test';
import { ml, MLGraphBuilder } from 'webnn-node';
import { readNpy } from '../../packages/cli/lib/npy.mjs';
import { loadModel } from 'webnn-node/onnx';
import { readSafetensors } from '../../examples/digits/safetensors.mjs';
import { root } from '../../scripts/process.mjs';
import { runExample } from '../examples/run-example.mjs';
import { maxAbsDifference } from '../lib/numbers.mjs';
import { INPUT, OUTPUT, squeezenet } from './squeezenet.mjs';

const MODEL = path.resolve(root, '../shared/models/squeezenet1.0');

/** Against an independent runtime in float32; probabilities are at most 1. */
const TOLERANCE = 1e-4;

/** The same where the weights are in 8 bits. */
const QUANTIZED_TOLERANCE = 0.02;

const model = (name) => path.join(MODEL, name);

let input;
let expected;
before(async () => {
  assert.ok(existsSync(MODEL), `the model files are missing: expected ${MODEL} beside the repository`);
  [input, expected] = await Promise.all(['input.npy', 'output.npy'].map(async (name) => (await readNpy(model(name))).data));
});

test('the network, built call by call, agrees with the reference output', async () => {
  const { tensors } = await readSafetensors(model('weights.safetensors'));
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const probabilities = squeezenet(builder, builder.input('image', INPUT), tensors);
  assert.deepEqual([...probabilities.shape], OUTPUT.shape);
  const graph = await builder.build({ probabilities });
  const image = await context.createTensor({ ...INPUT, writable: true });
  const output = await context.createTensor({ ...OUTPUT, readable: true });
  context.writeTensor(image, input);
  context.dispatch(graph, { image }, { probabilities: output });
  const got = new Float32Array(await context.readTensor(output));
  context.destroy();
  const difference = maxAbsDifference(got, expected);
  assert.ok(difference < TOLERANCE, `largest difference ${difference}`);
});

test('the model of the example, with weights in 8 bits, agrees with the reference output', async () => {
  const example = await loadModel(path.join(root, 'examples/image-classification/squeezenet.onnx'));
  const { output } = await example.run({ input });
  example.destroy();
  const difference = maxAbsDifference(output.data, expected);
  assert.ok(difference < QUANTIZED_TOLERANCE, `largest difference ${difference}`);
  assert.ok(difference > TOLERANCE, 'these are the weights in float32');
});

test('the example sees a lesser panda in the photograph', async () => {
  const { code, stdout, stderr } = await runExample('image-classification/index.mjs', model('test.jpg'));
  assert.equal(stderr, '');
  assert.equal(code, 0);
  assert.match(stdout, /^test\.jpg\n +(9\d|100) % {2}lesser panda\n/);
});

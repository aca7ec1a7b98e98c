import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import test, { before } from 'node:test';
import { ml, MLGraphBuilder } from 'webnn-node';
import { readNpy } from 'webnn-node-cli/lib/npy.mjs';
import { temporaryFolder } from '../lib/folders.mjs';
import { maxAbsDifference } from '../lib/numbers.mjs';
import { root } from '../../scripts/process.mjs';
import { readSafetensors } from '../../examples/digits/safetensors.mjs';
import { decodePicture, INPUT, OUTPUT, squeezenet } from '../../examples/lib/squeezenet.mjs';
import { runExample } from '../examples/run-example.mjs';

const MODEL = path.resolve(root, '../shared/models/squeezenet1.0');
const PROGRAM = 'image-classification.mjs';

/** Against an independent runtime in float32; probabilities are at most 1. */
const TOLERANCE = 1e-4;

const model = (name) => path.join(MODEL, name);

const folder = temporaryFolder();
before(() => {
  assert.ok(existsSync(MODEL), `the model files are missing: expected ${MODEL} beside the repository`);
});

/** The program must refuse with exit code 2, one line on stderr and nothing on stdout. */
async function refused(args, message) {
  const { code, stdout, stderr } = await runExample(PROGRAM, ...args);
  assert.match(stderr, message);
  assert.match(stderr, /^image-classification: [^\n]*\n$/);
  assert.equal(stdout, '');
  assert.equal(code, 2);
}

test('the network agrees with the reference output', async () => {
  const { tensors } = await readSafetensors(model('weights.safetensors'));
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const probabilities = squeezenet(builder, builder.input('image', INPUT), tensors);
  assert.deepEqual([...probabilities.shape], OUTPUT.shape);
  const graph = await builder.build({ probabilities });
  const input = await context.createTensor({ ...INPUT, writable: true });
  const output = await context.createTensor({ ...OUTPUT, readable: true });
  context.writeTensor(input, (await readNpy(model('input.npy'))).data);
  context.dispatch(graph, { image: input }, { probabilities: output });
  const got = new Float32Array(await context.readTensor(output));
  context.destroy();
  const difference = maxAbsDifference(got, (await readNpy(model('output.npy'))).data);
  assert.ok(difference < TOLERANCE, `largest difference ${difference}`);
});

test('the photograph is decoded like the reference input', async () => {
  const got = await decodePicture(model('test.jpg'));
  const expected = (await readNpy(model('input.npy'))).data;
  // Decoders and resizers round differently: one gray level is 1 / 127.5.
  const mean = got.reduce((sum, value, i) => sum + Math.abs(value - expected[i]), 0) / got.length;
  assert.ok(mean * 127.5 < 1, `mean difference of ${mean * 127.5} gray levels`);
});

test('a missing weight is named', async () => {
  const builder = new MLGraphBuilder(await ml.createContext());
  assert.throws(() => squeezenet(builder, builder.input('image', INPUT), new Map()), {
    name: 'FormatError',
    message: 'the weights lack the tensor "conv1.weight"',
  });
});

test('the photograph shows a lesser panda', async () => {
  const { code, stdout, stderr } = await runExample(PROGRAM, model('test.jpg'));
  assert.equal(stderr, '');
  assert.equal(code, 0);
  const lines = stdout.trimEnd().split('\n');
  assert.equal(lines.length, 5);
  assert.match(lines[0], /^lesser panda +9\d\.\d %  #+$/);
  for (const line of lines) assert.ok(line.length <= 80, line);
});

test('--top, --labels and --model', async () => {
  const { code, stdout } = await runExample(PROGRAM, model('test.jpg'), '--labels', '--top', '3', '--model', MODEL);
  assert.equal(code, 0);
  assert.deepEqual(stdout.split('\n'), ['lesser panda', 'teddy', 'tennis ball', '']);
});

test('--help explains the usage', async () => {
  const { code, stdout } = await runExample(PROGRAM, '--help');
  assert.equal(code, 0);
  for (const word of ['PICTURE', '--model', '--labels', '--top', '--help']) assert.ok(stdout.includes(word), word);
});

test('bad usage is exit code 2 and says what was wrong', async () => {
  const picture = model('test.jpg');
  const text = path.join(folder, 'text.jpg');
  await writeFile(text, 'not a picture');
  await refused([], /0 pictures given, expected one/);
  await refused([picture, picture], /2 pictures given, expected one/);
  await refused([picture, '--bogus'], /Unknown option '--bogus'/);
  for (const top of ['0', '1.5', 'many', '1002']) {
    await refused([picture, '--top', top], /--top is ".*", expected a whole number from 1 to 1001/);
  }
  await refused(['absent.jpg'], /cannot read the picture absent\.jpg: there is no such file/);
  await refused([text], /cannot read the picture .*text\.jpg: .*unsupported image format/);
});

test('a damaged model folder is exit code 2 and names the file', async () => {
  const picture = model('test.jpg');
  const weights = path.join(folder, 'weights.safetensors');
  const labels = path.join(folder, 'labels.txt');
  await refused([picture, '--model', folder], /cannot read the weights .*weights\.safetensors: there is no such file/);
  const whole = await readFile(model('weights.safetensors'));
  await writeFile(weights, whole.subarray(0, 1_000_000));
  await refused([picture, '--model', folder], /weights\.safetensors: truncated: tensor "/);
  await writeFile(weights, whole);
  await refused([picture, '--model', folder], /cannot read the labels .*labels\.txt: there is no such file/);
  await writeFile(labels, 'background\ntench\n');
  await refused([picture, '--model', folder], /labels\.txt: 2 labels, expected 1001/);
  await copyFile(model('labels.txt'), labels);
  const { code, stdout } = await runExample(PROGRAM, picture, '--model', folder);
  assert.equal(code, 0);
  assert.match(stdout, /^lesser panda /);
});

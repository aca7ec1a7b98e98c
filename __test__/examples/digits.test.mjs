import assert from 'node:assert/strict';
import { copyFile } from 'node:fs/promises';
import path from 'node:path';
import test, { before } from 'node:test';
import { ml } from 'webnn-node';
import { temporaryFolder } from '../lib/folders.mjs';
import { maxAbsDifference } from '../lib/numbers.mjs';
import { root } from '../../scripts/process.mjs';
import { argMax, CLASSES, DigitReader, loadWeights, SIDE } from '../../examples/digits/model.mjs';
import { loadPictures, PICTURES } from '../../examples/digits/pictures.mjs';
import { readSafetensors } from '../../examples/digits/safetensors.mjs';
import { runExample } from './run-example.mjs';
import { defined } from '../lib/types.mjs';

const REQUIRED_ACCURACY = 0.97;

/** Both sides compute in float32 and add in another order; probabilities are at most 1. */
const TOLERANCE = 1e-5;

let heldOut;
before(async () => {
  const { metadata, tensors } = await readSafetensors(path.join(root, 'examples/digits/heldout.safetensors'));
  const tensor = (name) => defined(tensors.get(name));
  const values = (name) => /** @type {Float32Array} */ (tensor(name).values);
  heldOut = {
    accuracy: Number(metadata.accuracy),
    count: tensor('pixels').shape[0],
    index: values('index'),
    labels: values('labels'),
    pixels: Float32Array.from(values('pixels')),
    probabilities: values('probabilities'),
  };
});

async function read(pixels, batch) {
  const context = await ml.createContext();
  const reader = await DigitReader.create(context, await loadWeights(), batch);
  const probabilities = await reader.read(pixels);
  context.destroy();
  return probabilities;
}

test('the network reads the held-out digits as well as it did after training', async () => {
  assert.equal(heldOut.count, 360);
  const probabilities = await read(heldOut.pixels, heldOut.count);
  assert.ok(maxAbsDifference(probabilities, heldOut.probabilities) < TOLERANCE);
  let correct = 0;
  heldOut.labels.forEach((label, i) => {
    correct += Number(argMax(probabilities.subarray(i * CLASSES, (i + 1) * CLASSES)) === label);
  });
  const accuracy = correct / heldOut.count;
  assert.ok(accuracy >= REQUIRED_ACCURACY, `accuracy ${accuracy}`);
  assert.equal(accuracy.toFixed(6), heldOut.accuracy.toFixed(6));
});

test('one picture at a time gives the same as all at once', async () => {
  const context = await ml.createContext();
  const reader = await DigitReader.create(context, await loadWeights(), 1);
  for (let i = 0; i < 20; i++) {
    const one = await reader.read(heldOut.pixels.subarray(i * SIDE * SIDE, (i + 1) * SIDE * SIDE));
    const expected = heldOut.probabilities.subarray(i * CLASSES, (i + 1) * CLASSES);
    assert.ok(maxAbsDifference(one, expected) < TOLERANCE, `picture ${i}`);
  }
  context.destroy();
});

test('the twelve pictures decode to pixels of the held-out set', async () => {
  const pictures = await loadPictures(PICTURES);
  assert.equal(pictures.length, 12);
  assert.equal(new Set(pictures.map(({ label }) => label)).size, CLASSES);
  for (const { name, index, label, pixels } of pictures) {
    const at = heldOut.index.indexOf(index);
    assert.notEqual(at, -1, `${name} was in the training set`);
    assert.equal(heldOut.labels[at], label, name);
    // A PNG has 256 levels, the data 17: rounding gives the exact value back.
    const expected = heldOut.pixels.subarray(at * SIDE * SIDE, (at + 1) * SIDE * SIDE);
    assert.deepEqual(pixels.map(Math.round), expected, name);
    assert.ok(maxAbsDifference(pixels, expected) < 16 / 255, name);
  }
});

test('the program reads all twelve and prints plain text of 80 columns into a pipe', async () => {
  const { code, stdout, stderr } = await runExample('digits/index.mjs');
  assert.equal(stderr, '');
  assert.equal(code, 0);
  assert.match(stdout, /\n12 of 12 right\n$/);
  assert.match(stdout, /^[\n\x20-\x7e]*$/);
  for (const line of stdout.split('\n')) assert.ok(line.length <= 80, line);
  for (let digit = 0; digit < CLASSES; digit++) assert.match(stdout, new RegExp(`reads ${digit} +\\d+\\.\\d %  ok`));
});

test('a wrong answer is exit code 1', async (t) => {
  const folder = temporaryFolder(t);
  const three = defined((await loadPictures(PICTURES)).find(({ label }) => label === 3));
  await copyFile(path.join(PICTURES, three.name), path.join(folder, '0001-is-8.png'));
  await copyFile(path.join(PICTURES, three.name), path.join(folder, '0002-is-3.png'));
  const { code, stdout } = await runExample('digits/index.mjs', folder);
  assert.equal(code, 1);
  assert.match(stdout, /reads 3 .*NO/);
  assert.match(stdout, /\n1 of 2 right\n$/);
});

test('a folder without pictures is an error', async (t) => {
  const folder = temporaryFolder(t);
  const { code, stderr } = await runExample('digits/index.mjs', folder);
  assert.equal(code, 1);
  assert.match(stderr, /no picture is named INDEX-is-LABEL\.png/);
});

// webnn-node-ort on a trained model, as programs for onnxruntime-node use it: from a path and from bytes, in workers, many runs.

import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import test, { before } from 'node:test';
import { Worker } from 'node:worker_threads';
import { readNpy } from '../../packages/cli/lib/npy.mjs';
import { InferenceSession, Tensor } from 'webnn-node-ort';
import { root } from '../../scripts/process.mjs';
import { maxAbsDifference } from '../lib/numbers.mjs';

const FOLDER = path.resolve(root, '../shared/models/squeezenet1.0');
const MODEL = path.join(FOLDER, 'model.onnx');

/** Against an independent runtime in float32; probabilities are at most 1. */
const TOLERANCE = 1e-4;

let input;
let expected;
before(async () => {
  assert.ok(existsSync(FOLDER), `the model files are missing: expected ${FOLDER} beside the repository`);
  [input, expected] = await Promise.all(['input.npy', 'output.npy'].map((name) => readNpy(path.join(FOLDER, name))));
});

/** Runs a session, and compares what it gives with the reference. */
async function check(session, ...fetches) {
  const [inputName] = session.inputNames;
  const [outputName] = session.outputNames;
  const { [outputName]: output } = await session.run({ [inputName]: new Tensor('float32', input.data, input.shape) }, ...fetches);
  assert.ok(output instanceof Tensor);
  assert.deepEqual(output.dims, expected.shape);
  const difference = maxAbsDifference(output.data, expected.data);
  assert.ok(difference < TOLERANCE, `largest difference ${difference}`);
}

test('a session from a path or from bytes agrees with the reference', async () => {
  const bytes = readFileSync(MODEL);
  const padded = new Uint8Array(bytes.length + 64);
  padded.set(bytes, 32);
  await check(await InferenceSession.create(MODEL));
  await check(await InferenceSession.create(bytes));
  await check(await InferenceSession.create(padded.buffer, 32, bytes.length));
});

test('outputs are asked for by name, as null, or as tensors to fill', async () => {
  const session = await InferenceSession.create(MODEL, { executionProviders: ['cpu'], graphOptimizationLevel: 'all' });
  const [name] = session.outputNames;
  const target = new Tensor('float32', new Float32Array(expected.data.length), [...expected.shape]);
  await check(session, [name]);
  await check(session, { [name]: null });
  await check(session, { [name]: target });
  assert.ok(maxAbsDifference(target.data, expected.data) < TOLERANCE);
});

test('runs one after the other, and at once, agree with the reference', async () => {
  const session = await InferenceSession.create(MODEL);
  for (let run = 0; run < 20; run++) await check(session);
  await Promise.all(Array.from({ length: 20 }, () => check(session)));
  await session.release();
  await assert.rejects(check(session), /already disposed/);
});

test('workers agree with the reference', async () => {
  const outputs = await Promise.all(
    Array.from(
      { length: 3 },
      () =>
        new Promise((resolve, reject) => {
          const worker = new Worker(
            `
      const { workerData, parentPort } = require('node:worker_threads');
      const { InferenceSession, Tensor } = require('webnn-node-ort');
      const { model, data, shape } = workerData;
      InferenceSession.create(model).then(async (session) => {
        const results = await session.run({ [session.inputNames[0]]: new Tensor('float32', data, shape) });
        const output = results[session.outputNames[0]].data;
        parentPort.postMessage(output, [output.buffer]);
      });`,
            { eval: true, workerData: { model: MODEL, ...input } },
          );
          worker.on('message', resolve).on('error', reject);
        }),
    ),
  );
  for (const output of outputs) assert.ok(maxAbsDifference(output, expected.data) < TOLERANCE);
});

import assert from 'node:assert/strict';
import test from 'node:test';
import path from 'node:path';
import { runNode } from '../lib/processes.mjs';
import { root } from '../../scripts/process.mjs';

const FOLDER = path.join(root, 'examples', 'electron');

// Without Electron, the main program can only be parsed; what runs in the utility process is run, with a port between
// two ends of one process.
test('the program of the utility process answers messages', async () => {
  const { port1, port2 } = new MessageChannel();
  process.parentPort = {
    on: (name, listener) => port2.addEventListener(name, listener),
    postMessage: (message) => port2.postMessage(message),
  };
  await import('../../examples/electron/compute.mjs');
  const answers = new Map();
  /** @type {Promise<void>} */
  const answered = new Promise((resolve) => {
    port1.addEventListener('message', ({ data }) => {
      answers.set(data.id, data);
      if (answers.size === 3) {
        resolve();
      }
    });
  });
  for (const [id, numbers] of [[1, 2, 3, 4], [0, -1, 0.5, 100], [1]].entries()) {
    port1.postMessage({ id, numbers: new Float32Array(numbers) });
  }
  await answered;
  assert.deepEqual([...answers.get(0).result], [3, 5, 7, 9]);
  assert.deepEqual([...answers.get(1).result], [1, -1, 2, 201]);
  assert.match(answers.get(2).error, /^writeTensor: inputData has 4 bytes, expected the 16 bytes/);
  port1.close();
  Reflect.deleteProperty(process, 'parentPort');
});

for (const name of ['main.mjs', 'preload.cjs', 'window.js']) {
  test(`${name} is valid JavaScript`, async () => {
    const { code, stderr } = await runNode(['--check', path.join(FOLDER, name)]);
    assert.equal(code, 0, stderr);
  });
}

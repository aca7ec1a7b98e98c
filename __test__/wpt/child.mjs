// The process of one test: `node child.mjs JSON`, started by execute.mjs with an IPC channel. A window is this thread,
// a dedicated worker a worker thread of it. Sends what testharness.js tells, in the form in which workers tell it.

import { readFileSync } from 'node:fs';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import vm from 'node:vm';
import { ml } from 'webnn-node';
import 'webnn-node/auto';
import { askForGpuByDefault } from '../lib/gpu-by-default.mjs';
import { servedFile } from './checkout.mjs';
import { installScope, reportError } from './scope.mjs';

/** Devices of variants for which contexts ask for a GPU: `deviceType`, by which the tests ask, is no option any more. */
const ON_GPU = ['gpu', 'npu'];

/** Puts the `ml` of the draft in place of that of auto, whose contexts have an extension. */
function withoutExtensions() {
  const prototype = Object.getPrototypeOf(navigator);
  const { get: original, ...descriptor } = /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(prototype, 'ml'));
  const { get } = /** @type {PropertyDescriptor} */ (
    Object.getOwnPropertyDescriptor(
      {
        get ml() {
          original?.call(this); // It knows the receiver.
          return ml;
        },
      },
      'ml',
    )
  );
  Object.defineProperty(prototype, 'ml', { ...descriptor, get });
}

/** Runs a file of the checkout as a classic script, in the one global scope that such scripts share. */
function runScript(directory, path) {
  vm.runInThisContext(readFileSync(String(servedFile(directory, path)), 'utf8'), { filename: path });
}

/** Lets a window tell its results as a worker does by itself. */
function reportResults(post) {
  globalThis.add_test_state_callback((test) => post({ type: 'test_state', test: test.structured_clone() }));
  globalThis.add_result_callback((test) => post({ type: 'result', test: test.structured_clone() }));
  globalThis.add_completion_callback((_, status) => post({ type: 'complete', status: status.structured_clone() }));
}

/** Loads the harness, what the test asks for, and the test itself, in one task as the harness expects of a shell. */
function runTest({ directory, test }, post) {
  withoutExtensions();
  if (ON_GPU.includes(test.device)) {
    askForGpuByDefault();
  }
  installScope(test, directory, post);
  runScript(directory, '/resources/testharness.js');
  if (test.scope === 'window') {
    reportResults(post);
  }
  try {
    test.scripts.forEach((path) => runScript(directory, path));
  } catch (error) {
    reportError(error);
  }
  if (test.scope !== 'window') {
    globalThis.done();
  }
}

/** Passes a message to the runner; the last one ends the process. */
function send(message) {
  process.send?.(message, () => {
    if (message.type === 'complete') {
      process.exit();
    }
  });
}

if (!isMainThread) {
  runTest(workerData, (message) => /** @type {import('node:worker_threads').MessagePort} */ (parentPort).postMessage(message));
} else {
  const job = JSON.parse(process.argv[2]);
  if (job.test.scope === 'window') {
    runTest(job, send);
  } else {
    const worker = new Worker(new URL(import.meta.url), { workerData: job });
    worker.on('message', send);
    worker.on('error', (error) => {
      throw error;
    });
  }
}

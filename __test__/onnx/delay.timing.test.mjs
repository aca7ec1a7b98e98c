// How long a model holds up the event loop while it is loaded, and while it is run at a new shape.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { after, before, describe, test } from 'node:test';

import { until } from '../lib/wait.mjs';
import { temporaryFolder } from '../lib/folders.mjs';
import { ml } from '../../index.js';
import { inspectModel, loadModel } from '../../onnx.js';
import { FLOAT, node, value, weight, writeModel } from './model-writer.mjs';

const NODES = 4000;

/** The machine may be busy: what counts is the best of so many. */
const TURNS = 8;

/** Milliseconds that a call may take until it gives its promise. */
const CALL_MS = { load: 2, run: 1 };

/** y = x + 1 + 1 ..., and a product now and then, for x of shape [n, 4]. */
function largeModel() {
  const nodes = Array.from({ length: NODES }, (_, at) =>
    node(at % 3 === 2 ? 'Mul' : 'Add', [at === 0 ? 'x' : `v${at - 1}`, 'one'], [at === NODES - 1 ? 'y' : `v${at}`]),
  );
  return writeModel({
    inputs: [value('x', FLOAT, ['n', 4])],
    outputs: [value('y', FLOAT, ['n', 4])],
    weights: [weight('one', [4], Float32Array.of(1, 1, 1, 1))],
    nodes,
  });
}

/** How long `begin` takes until it gives its promise, and the longest delay of the event loop until that is settled. */
async function delaysOf(begin) {
  const histogram = monitorEventLoopDelay({ resolution: 1 });
  histogram.enable();
  await until(() => histogram.count > 0, 'the first delay that is measured');
  histogram.reset();
  const start = performance.now();
  const promise = begin();
  const call = performance.now() - start;
  const result = await promise;
  // What is reported at the end counts as well.
  const { count } = histogram;
  await until(() => histogram.count > count, 'the delay at the end');
  histogram.disable();
  return { call, delay: histogram.max / 1e6, result };
}

const least = (numbers) => Math.min(...numbers);

describe('the event loop', () => {
  const bytes = largeModel();
  const file = join(temporaryFolder(undefined, { 'large.onnx': bytes }), 'large.onnx');
  let context, blockingMs;
  before(async () => {
    context = await ml.createContext({ accelerated: false });
    // The same work on this thread: what the machine needs for it now.
    const once = () => {
      const start = performance.now();
      inspectModel(bytes, { freeDimensions: { n: 3 } });
      return performance.now() - start;
    };
    blockingMs = least(Array.from({ length: TURNS }, once));
  });
  after(() => context.destroy());

  /** The bound for delays: a part of what the work would block, and what timers and the collector cost. */
  const bound = () => 4 + blockingMs / 4;

  for (const kind of ['bytes', 'a path']) {
    test(`goes on while a model of ${NODES} nodes is loaded from ${kind}`, async () => {
      const turns = [];
      for (let turn = 0; turn < TURNS; turn++) {
        turns.push(await delaysOf(() => loadModel(kind === 'bytes' ? bytes : file, { context, freeDimensions: { n: turn + 1 } })));
      }
      turns.forEach(({ result }) => result.destroy());
      const [call, delay] = [least(turns.map(({ call }) => call)), least(turns.map(({ delay }) => delay))];
      assert.ok(call < CALL_MS.load, `the call took ${call} ms`);
      assert.ok(delay < bound(), `the loop was delayed by ${delay} ms; the work takes ${blockingMs} ms`);
    });
  }

  test('goes on while it is compiled for a new shape', async () => {
    const model = await loadModel(bytes, { context });
    const turns = [];
    for (let turn = 0; turn < TURNS; turn++) {
      const x = new Float32Array(4 * (turn + 1));
      turns.push(await delaysOf(() => model.run({ x })));
    }
    turns.forEach(({ result: { y } }, turn) => assert.deepEqual(y.shape, [turn + 1, 4]));
    const [call, delay] = [least(turns.map(({ call }) => call)), least(turns.map(({ delay }) => delay))];
    assert.ok(call < CALL_MS.run, `the call took ${call} ms`);
    assert.ok(delay < bound(), `the loop was delayed by ${delay} ms; the work takes ${blockingMs} ms`);
    model.destroy();
  });
});

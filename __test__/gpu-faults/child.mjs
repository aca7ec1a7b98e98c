// One process that computes on a GPU and, all the while, on the CPU. See run.mjs.

import { createRequire } from 'node:module';
import { describeContext } from '../../inspect.js';
import { GPU_WANTED, MLGraphBuilder, floats, ml, operand, read } from '../runtime/helpers.mjs';

const { slots } = createRequire(import.meta.url)('../../lib/context.js');

/** Elements of the inputs. */
const SIZE = 300;

/** Computes 2x + 1 for x = 0, 1, 2, ... on `context`; throws if any element is wrong. */
async function compute(context) {
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(SIZE));
  const [two, one] = [2, 1].map((value) => builder.constant(operand(1), new Float32Array([value])));
  const graph = await builder.build({ y: builder.add(builder.mul(x, two), one) });
  const [from, to] = [await context.createTensor(floats(SIZE)), await context.createTensor(floats(SIZE))];
  context.writeTensor(
    from,
    Float32Array.from({ length: SIZE }, (_, i) => i),
  );
  context.dispatch(graph, { x: from }, { y: to });
  const wrong = (await read(context, to)).findIndex((value, i) => value !== 2 * i + 1);
  if (wrong >= 0) throw new Error(`WRONG RESULT at ${wrong}`);
  for (const each of [graph, from, to]) each.destroy();
}

/** Computes on `context`; throws an error that says why it cannot. */
async function computeOnGpu(context) {
  try {
    await compute(context);
  } catch (thrown) {
    const error = /** @type {Error} */ (thrown);
    // What is under way only learns that its tensors are gone; the context says why.
    const patience = new Promise((resolve) => setTimeout(resolve, 3000, { message: 'the context is not lost' }));
    const { message } = await Promise.race([context.lost, patience]);
    throw new Error(`${error.name}: ${error.message}; ${message}`);
  }
}

/**
 * Computes on the GPU, again and again, with a context of its own each time, beside one that stays; tells why the CPU did it, if
 * it did.
 */
async function onGpu() {
  const other = await ml.createContext(GPU_WANTED);
  const { device, reason: why } = describeContext(other);
  let reason = device === 'cpu' ? why : null;
  if (reason !== null) tell();
  for (let round = 0; round < 3; round++) {
    const context = await ml.createContext(GPU_WANTED);
    const { device, reason: why } = describeContext(context);
    if (device === 'cpu') {
      tell();
      reason = why;
    }
    try {
      await computeOnGpu(context);
    } finally {
      // An error of one context is no other's, unless the device is lost.
      await computeOnGpu(other);
    }
    context.destroy();
  }
  const context = await ml.createContext(GPU_WANTED);
  if (describeContext(context).device === 'gpu') {
    slots.get(context).loseDevice();
    await context.lost;
  }
  return reason;
}

const cpu = await ml.createContext({ accelerated: false });
const result = { error: /** @type {string | null} */ (null), reason: /** @type {string | null} */ (null), ms: 0, endMs: 0, onCpu: 0, longestMs: 0 };
let isOver = false;
/** Computes on the CPU until the GPU is done. */
const beside = (async () => {
  while (!isOver) {
    const start = performance.now();
    await compute(cpu);
    result.onCpu++;
    result.longestMs = Math.max(result.longestMs, performance.now() - start);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
})();
const start = performance.now();
/** Notes when the program learns how it went. */
function tell() {
  result.ms ||= performance.now() - start;
}
try {
  result.reason = await onGpu();
  tell();
} catch (error) {
  tell();
  result.error = /** @type {Error} */ (error).message;
}
result.endMs = performance.now() - start;
isOver = true;
await beside;
await compute(cpu);
console.log(JSON.stringify(result));

/** What the tests of timelines and of bad input share: the public API, slow graphs and processes of their own. */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { root } from '../../scripts/process.mjs';
import { runNode } from '../lib/processes.mjs';

// What programs in processes of their own need of them.
export { PATIENCE, collectGarbage, collectUntil, until, untilBusy, untilIdle } from '../lib/wait.mjs';

const require = createRequire(import.meta.url);

/** @typedef {import('../../index.js').MLContext} MLContext */
/** @typedef {import('../../index.js').MLGraph} MLGraph */
/** @typedef {import('../../index.js').MLGraphBuilder} MLGraphBuilder */
/** @typedef {import('../../index.js').MLTensor} MLTensor */

/** The public API. */
export const { ml, MLGraphBuilder, ...interfaces } = /** @type {typeof import('../../index.js')} */ (require('../../index.js'));

/** This module, for processes and workers that import it. */
export const HELPERS = import.meta.url;

/** Options of a context that asks for a GPU. */
export const GPU_WANTED = /** @type {const} */ ({ powerPreference: 'high-performance' });

/** Whether contexts that ask for a GPU are on software Vulkan, which takes many times as long as the kernels for CPUs. */
export const IS_ON_SOFTWARE_VULKAN = process.env.WEBNN_GPU_SOFTWARE === '1';

/**
 * A float32 tensor that can be read and written.
 *
 * @param {...number} shape
 * @returns {import('../../index.js').MLTensorDescriptor}
 */
export const floats = (...shape) => ({ dataType: 'float32', shape, readable: true, writable: true });

/**
 * The descriptor of a float32 operand.
 *
 * @param {...number} shape
 * @returns {import('../../index.js').MLOperandDescriptor}
 */
export const operand = (...shape) => ({ dataType: 'float32', shape });

/**
 * The float32 contents of a tensor.
 *
 * @param {MLContext} context
 * @param {MLTensor} tensor
 */
export const read = async (context, tensor) => new Float32Array(await context.readTensor(tensor));

/** Elements of the tensors of slow graphs. */
export const SLOW_ELEMENTS = 1 << 20;

/**
 * A graph `x -> y` of `links` times sin, which leaves values between -1 and 1, on `SLOW_ELEMENTS` floats.
 *
 * @param {MLContext} context
 * @param {number} links
 * @returns {Promise<MLGraph>}
 */
export function chain(context, links) {
  const builder = new MLGraphBuilder(context);
  let y = builder.input('x', operand(SLOW_ELEMENTS));
  for (let i = 0; i < links; i++) {
    y = builder.sin(y);
  }
  return builder.build({ y });
}

/**
 * What `links` times sin gives for `value`, in double precision.
 *
 * @param {number} value
 * @param {number} links
 */
export function chained(value, links) {
  let y = value;
  for (let i = 0; i < links; i++) {
    y = Math.sin(y);
  }
  return y;
}

/**
 * Tensors for a slow graph.
 *
 * @param {MLContext} context
 */
export async function slowTensors(context) {
  const [x, y] = await Promise.all([context.createTensor(floats(SLOW_ELEMENTS)), context.createTensor(floats(SLOW_ELEMENTS))]);
  return { x, y };
}

/**
 * A graph whose dispatch takes about as long as asked, found by timing a short one.
 *
 * @param {MLContext} context with nothing else to do
 * @param {number} milliseconds
 * @returns {Promise<{graph: MLGraph, links: number, x: MLTensor, y: MLTensor, run: () => void}>}
 */
export async function slowGraph(context, milliseconds) {
  const { x, y } = await slowTensors(context);
  const sample = 16;
  const short = await chain(context, sample);
  let elapsed = Infinity;
  for (let i = 0; i < 3; i++) {
    await context.readTensor(y);
    const start = performance.now();
    context.dispatch(short, { x }, { y });
    await context.readTensor(y);
    elapsed = Math.min(elapsed, performance.now() - start);
  }
  short.destroy();
  const links = Math.min(4000, Math.max(sample, Math.ceil((sample * milliseconds) / elapsed)));
  const graph = await chain(context, links);
  return { graph, links, x, y, run: () => context.dispatch(graph, { x }, { y }) };
}

/**
 * Arguments with which `process.execPath` runs the text of an ES module. Deno's `-e` takes CommonJS only.
 *
 * @param {string} program
 * @param {string[]} [flags] of V8
 * @returns {string[]}
 */
export function moduleArguments(program, flags = []) {
  if (process.versions.deno !== undefined) {
    return ['eval', ...(flags.length > 0 ? [`--v8-flags=${flags}`] : []), program];
  }
  return [...flags, '--input-type=module', '-e', program];
}

/**
 * Runs an ES module in a process of its own. `webnn-node` is imported as it would be by a user; the helpers above
 * are there as `helpers`, unless the process is to start without the addon.
 *
 * @param {string} source
 * @param {{env?: Record<string, string>, flags?: string[], helpers?: boolean}} [options]
 */
export function runProcess(source, { env = {}, flags = [], helpers = true } = {}) {
  const program = helpers ? `import * as helpers from ${JSON.stringify(HELPERS)};\n${source}` : source;
  return runNode(moduleArguments(program, flags), { cwd: root, env });
}

/**
 * Runs an ES module in a process of its own that must succeed.
 *
 * @param {string} source
 * @param {Parameters<typeof runProcess>[1]} [options]
 * @returns {Promise<any>} what it prints, as JSON
 */
export async function resultOf(source, options) {
  const { code, signal, stdout, stderr } = await runProcess(source, options);
  assert.deepEqual({ code, signal }, { code: 0, signal: null }, stderr || stdout);
  return JSON.parse(stdout);
}

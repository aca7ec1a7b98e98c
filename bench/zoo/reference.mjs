// Runs networks in onnxruntime-node without its optimizations: reference outputs, and ranges of activations.

import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(new URL('../package.json', import.meta.url));

/** Writes a network's file. @param {import('./network.mjs').Network} network @param {string} file */
export function writeNetwork(network, file) {
  const descriptor = openSync(file, 'w');
  try {
    for (const part of network.parts()) writeAll(descriptor, part);
  } finally {
    closeSync(descriptor);
  }
}

/** @param {number} descriptor @param {Uint8Array} bytes */
function writeAll(descriptor, bytes) {
  for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at);
}

/**
 * Runs a model.
 *
 * @param {string} file
 * @param {Record<string, import('../../packages/cli/lib/types.mjs').Tensor>} feeds
 * @returns {Promise<Record<string, import('../../packages/cli/lib/types.mjs').Tensor>>}
 */
export async function runModel(file, feeds) {
  const { InferenceSession, Tensor } = /** @type {any} */ (require('onnxruntime-node'));
  // Weights packed for faster products are copies: they are not worth the memory for one run.
  const session = await InferenceSession.create(file, {
    graphOptimizationLevel: 'disabled',
    logSeverityLevel: 3,
    extra: { session: { disable_prepacking: '1' } },
  });
  try {
    const tensors = Object.entries(feeds).map(([name, { dataType, data, shape }]) => [name, new Tensor(dataType, data, shape)]);
    const results = await session.run(Object.fromEntries(tensors));
    return Object.fromEntries(Object.entries(results).map(([name, { type, data, dims }]) => [name, { dataType: type, data, shape: [...dims] }]));
  } finally {
    await session.release();
  }
}

/**
 * Runs a network, for which a file is written.
 *
 * @param {import('./network.mjs').Network} network
 * @param {string} file
 */
export async function runNetwork(network, file) {
  writeNetwork(network, file);
  try {
    return await runModel(file, network.feeds());
  } finally {
    rmSync(file);
  }
}

/** Ranges are wider than what one sample shows, up to the next multiple of this. */
const RANGE_STEP = 0.05;

/**
 * The smallest and largest values of tensors, for the sample inputs.
 *
 * @param {import('./network.mjs').Network} network
 * @param {import('./network.mjs').Tensor[]} tensors of float32
 * @param {string} file to write
 * @returns {Promise<Map<import('./network.mjs').Tensor, [number, number]>>}
 */
export async function rangesOf(network, tensors, file) {
  const feeds = network.feeds();
  const outputs = tensors.filter(({ name }) => !(name in feeds)).map((tensor) => ({ tensor, dataType: 'float32' }));
  const observed = Object.create(network, { outputs: { value: outputs } });
  const results = { ...feeds, ...(await runNetwork(observed, file)) };
  return new Map(
    tensors.map((tensor) => {
      const numbers = /** @type {Float32Array} */ (results[tensor.name].data);
      const [lowest, highest] = [Math.min, Math.max].map((choose) => numbers.reduce((a, b) => choose(a, b)));
      return [tensor, [Math.floor(lowest / RANGE_STEP) * RANGE_STEP, Math.ceil(highest / RANGE_STEP) * RANGE_STEP]];
    }),
  );
}

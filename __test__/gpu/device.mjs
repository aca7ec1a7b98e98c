/** What the tests of contexts on GPUs share with tests that run on either device. */

import { createRequire } from 'node:module';

const { MLGraphBuilder } = createRequire(import.meta.url)('../../index.js');

/**
 * Where a context computes.
 *
 * @param {MLContext} context
 * @returns {Promise<'cpu' | 'gpu'>}
 */
export async function deviceOf(context) {
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ y: builder.relu(builder.input('x', { dataType: 'float32', shape: [1] })) });
  const [device] = graph.devices;
  graph.destroy();
  return device;
}

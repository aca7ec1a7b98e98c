/** What the tests of `webnn-node/inspect` share: the public API and a small network with one of everything. */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { randomFloats } from '../lib/random.mjs';

const require = createRequire(import.meta.url);

/** The public API. */
export const { ml, MLGraphBuilder } = require('../../index.js');
export const { describeContext, describeGraph, profileGraph, systemInfo } = require('../../inspect.js');

/** A float32 operand or tensor. */
export const floats = (...shape) => ({ dataType: /** @type {const} */ ('float32'), shape, readable: true, writable: true });

/**
 * A network in the style of SqueezeNet on images of 3 channels and 17 x 17 pixels, with a constant that is folded.
 *
 * @returns {Promise<{context: MLContext, graph: MLGraph, inputs: {image: MLTensor}, outputs: {classes: MLTensor}}>}
 */
export async function squeezed(options = {}) {
  const context = await ml.createContext(options);
  const builder = new MLGraphBuilder(context);
  let seed = 1;
  const constant = (...shape) =>
    builder.constant(
      floats(...shape),
      randomFloats(
        shape.reduce((a, b) => a * b, 1),
        seed++,
      ),
    );
  const convolution = (x, filter, label, more = {}) => {
    const y = builder.conv2d(x, constant(...filter), { bias: constant(filter[0]), label, ...more });
    return builder.relu(y, { label: `${label} relu` });
  };
  const image = builder.input('image', floats(1, 3, 17, 17));
  const stem = convolution(image, [8, 3, 3, 3], 'stem', { strides: [2, 2] });
  const pooled = builder.maxPool2d(stem, { windowDimensions: [2, 2], strides: [2, 2], label: 'pool' });
  const squeeze = convolution(pooled, [4, 8, 1, 1], 'squeeze');
  const one = convolution(squeeze, [6, 4, 1, 1], 'expand1');
  const three = convolution(squeeze, [6, 4, 3, 3], 'expand3', { padding: [1, 1, 1, 1] });
  const joined = builder.concat([one, three], 1, { label: 'join' });
  const scale = builder.exp(constant(1), { label: 'scale' });
  const filter = builder.constant(floats(5, 12, 1, 1), randomFloats(60));
  const classes = builder.conv2d(builder.mul(joined, scale, { label: 'scaled' }), filter, { label: 'classes' });
  const average = builder.averagePool2d(classes, { label: 'average' });
  const flat = builder.reshape(average, [1, 5], { label: 'flat' });
  const graph = await builder.build({ classes: builder.softmax(flat, 1, { label: 'softmax' }) });
  const inputs = { image: await context.createTensor(floats(1, 3, 17, 17)) };
  const outputs = { classes: await context.createTensor(floats(1, 5)) };
  context.writeTensor(inputs.image, randomFloats(3 * 17 * 17, 9));
  return { context, graph, inputs, outputs };
}

/** Checks that every member of a GraphListing is there and of its kind. */
export function checkListing({ values, nodes, inputs, outputs }) {
  const known = new Map(values.map((value) => [value.id, value]));
  assert.equal(known.size, values.length);
  for (const { id, dataType, shape, kind, bytes } of values) {
    assert.ok(Number.isInteger(id) && ['input', 'constant', 'node'].includes(kind));
    assert.equal(bytes, shape.reduce((a, b) => a * b, 1) * { float32: 4, int64: 8, uint8: 1 }[dataType]);
  }
  nodes.forEach(({ id, operator, label, inputs, outputs, attributes, epilogue, origins }, index) => {
    assert.equal(id, index);
    assert.ok(typeof operator === 'string' && typeof label === 'string');
    assert.ok(inputs.every((input) => input === null || known.has(input)));
    assert.ok(outputs.every((output) => known.get(output).kind === 'node'));
    assert.equal(Object.getPrototypeOf(attributes), Object.prototype);
    assert.ok(epilogue.every((name) => typeof name === 'string') && origins.every(Number.isInteger));
  });
  for (const { name, value } of [...inputs, ...outputs]) {
    assert.ok(typeof name === 'string' && known.has(value));
  }
}

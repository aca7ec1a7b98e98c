// A server for long JSON, and texts of any length.

import { FLOAT, node, value, weight, writeModel } from '../../../__test__/onnx/model-writer.mjs';
import { DIGITS, repositoryOf, startServer, wordsFiles } from './support.mjs';

export const MIB = 2 ** 20;

/** Doubles each number of `x` [n]. */
const DOUBLE_IT = writeModel({
  inputs: [value('x', FLOAT, ['n'])],
  outputs: [value('y', FLOAT, ['n'])],
  nodes: [node('Mul', ['x', 'two'], ['y'])],
  weights: [weight('two', [1], Float32Array.of(2))],
});

/** A server whose tests may stop its thread themselves: they parse there for comparison. */
export async function modelServer(t) {
  const repository = repositoryOf(t, { 'digits/1/model.onnx': DIGITS, 'double/1/model.onnx': DOUBLE_IT, ...wordsFiles('words') });
  const { urls } = await startServer(t, { models: repository });
  return { url: urls.http, infer: `${urls.http}/v2/models/double/infer` };
}

/** A text of a length that consists of a part again and again. */
export const repeated = (/** @type {string} */ before, /** @type {string} */ part, /** @type {string} */ after, /** @type {number} */ bytes) =>
  Buffer.from(before + part.repeat(Math.floor((bytes - before.length - after.length) / part.length)) + after);

/** A request of v2, without the elements of its list of data. */
export const [LIST, END] = ['{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[', '}]}'];

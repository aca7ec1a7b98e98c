'use strict';

const { InferenceSession, Tensor } = require('onnxruntime-node');

/**
 * Runs a model of token ids and their mask.
 *
 * @param {string} path of the model
 * @param {bigint[]} ids
 * @param {number[]} mask
 * @returns {Promise<Float32Array>}
 */
exports.maskTokens = async (path, ids, mask) => {
  const session = await InferenceSession.create(path);
  const { masked } = await session.run({
    ids: new Tensor('int64', ids, [1, ids.length]),
    mask: new Tensor('float32', mask, [1, mask.length]),
  });
  await session.release();
  return /** @type {Float32Array} */ (masked.data);
};

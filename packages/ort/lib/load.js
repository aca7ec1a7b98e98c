'use strict';

/** Loads models, with the errors of onnxruntime-node. */

const { resolve } = require('node:path');
const { loadModel } = require('webnn-node/onnx');

/** @typedef {import('webnn-node/onnx').OnnxModel} OnnxModel */
/** @typedef {InstanceType<typeof import('./log.js').Log>} Log */

/**
 * Creates an error like onnxruntime-node's: a plain Error, here with what its cause says beside its message.
 *
 * @param {unknown} cause
 * @param {string} message
 */
function failure(cause, message) {
  const { code, help, unsupported } = /** @type {Partial<import('webnn-node/onnx').OnnxError>} */ (cause);
  return Object.assign(new Error(message, { cause }), code !== undefined && { code, help }, unsupported !== undefined && { unsupported });
}

/** @param {unknown} error */
const messageOf = (error) => (error instanceof Error ? error.message : String(error));

/**
 * @param {string | Uint8Array} source
 * @param {import('./options.js').SessionSettings} settings
 * @param {Log} log
 * @returns {Promise<{model: OnnxModel, isGpu: boolean}>}
 * @throws {Error}
 */
async function load(source, { device, mayFallBack, numThreads, externalData, cache, idle }, log) {
  if (source.length === 0 && typeof source !== 'string') {
    throw new Error('Load model failed: No graph was found in the protobuf, which is empty');
  }
  // Always a path, never a URL.
  const from = typeof source === 'string' && source !== '' ? resolve(source) : source;
  const options = { strictDimensions: false, externalData, cache, ...(numThreads !== undefined && { numThreads }), ...(idle !== undefined && { idle }) };
  try {
    try {
      return { model: await loadModel(from, { ...options, device }), isGpu: device === 'gpu' };
    } catch (error) {
      if (device === 'cpu' || !mayFallBack || /** @type {{code?: string}} */ (error).code !== 'ERR_WEBNN_NOT_SUPPORTED') {
        throw error;
      }
      log.warn(`the CPU is used instead of webgpu: ${messageOf(error)}`);
      return { model: await loadModel(from, { ...options, device: 'cpu' }), isGpu: false };
    }
  } catch (error) {
    throw failure(error, `Load model${typeof source === 'string' ? ` from ${source.slice(0, 1000).replace(/\p{Cc}/gu, '')}` : ''} failed: ${messageOf(error)}`);
  }
}

module.exports = { failure, load, messageOf };

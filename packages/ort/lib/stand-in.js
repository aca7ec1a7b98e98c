'use strict';

/** The modules that replace onnxruntime-node, one for each copy of onnxruntime-common. */

const { listSupportedBackends, prepare } = require('./backend.js');
const { OWN } = require('./copies.js');

/** @type {Map<string, Record<string, unknown>>} by the paths of copies of onnxruntime-common */
const standIns = new Map();

/**
 * Returns the module that exports this copy of onnxruntime-common.
 *
 * @param {string} path of the copy
 * @returns {Record<string, unknown>} the same object in every call
 */
function standInFor(path) {
  if (path === OWN) {
    return require('../index.js');
  }
  const known = standIns.get(path);
  if (known !== undefined) {
    return known;
  }
  const common = require(path);
  prepare(common);
  const standIn = Object.defineProperty({ ...common, listSupportedBackends }, '__esModule', { value: true });
  standIns.set(path, standIn);
  return standIn;
}

module.exports = { standInFor };

'use strict';

/** What programs get in place of onnxruntime-node. */

const { listSupportedBackends, prepare } = require('./backend.js');
const { OWN } = require('./copies.js');

/** @type {Map<string, Record<string, unknown>>} by the paths of copies of onnxruntime-common */
const standIns = new Map();

/**
 * The stand-in that exports this copy of onnxruntime-common.
 *
 * @param {string} path of the copy
 * @returns {Record<string, unknown>} the same for each call
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

'use strict';

/** Warnings about models. */

const process = require('node:process');

const { quote } = require('../errors.js');

/** Maximum number of inputs and outputs to name. */
const MOST = 10;

/**
 * @param {string} code by which users can disable the warning
 * @param {string} message
 */
const warn = (code, message) => process.emitWarning(message, { type: 'OnnxWarning', code });

/**
 * Returns a list of names, or nothing if there are none.
 *
 * @param {string} what one of them is
 * @param {readonly string[]} names the first of them
 * @param {number} count of all
 */
function listed(what, names, count) {
  if (count === 0) {
    return [];
  }
  const shown = names.slice(0, MOST);
  const more = count - shown.length;
  return [`${what}${count === 1 ? '' : 's'} ${shown.map(quote).join(', ')}${more === 0 ? '' : ` and ${more} more`}`];
}

/**
 * Warns if a model computes doubles in float32.
 *
 * @param {import('../../onnx.js').OnnxAsFloat32} values
 * @param {string} [path] of the model
 */
function warnAboutDoubles({ inputs, outputs, nodes, nodeCount }, path = 'the model') {
  const parts = [listed('input', inputs, inputs.length), listed('output', outputs, outputs.length), listed('node', nodes, nodeCount)].flat();
  if (parts.length > 0) {
    warn('WARN_WEBNN_FLOAT32', `${path} computes doubles in float32, with 24 bits of precision: ${parts.join('; ')}`);
  }
}

/** @param {string} message about dimensions of one name that have several sizes */
const warnAboutDimensions = (message) => warn('WARN_WEBNN_DIMENSIONS', message);

module.exports = { warnAboutDimensions, warnAboutDoubles };

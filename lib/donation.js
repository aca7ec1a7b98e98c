'use strict';

/** Outputs that take over the memory of inputs: the extension "donation", see docs/donation.md. */

const { quote } = require('./errors.js');
const { dictionary, record, usvString } = require('./webidl.js');

/**
 * MLDispatchOptions.
 *
 * @type {import('./internal.js').Converter<{donate?: Map<string, string>}>}
 */
const toDispatchOptions = dictionary([{ name: 'donate', type: 'record<USVString, USVString>', convert: record(usvString) }]);

/**
 * @param {import('./internal.js').NamedShape[]} ports
 * @param {'input' | 'output'} kind
 * @param {string} name
 * @returns {number} the index of the port with that name
 */
function placeOf(ports, kind, name) {
  const place = ports.findIndex((port) => port.name === name);
  if (place < 0) {
    throw new TypeError(`dispatch: options.donate: the graph has no ${kind} ${quote(name)}`);
  }
  return place;
}

/**
 * Returns pairs of indices: an output and the input whose memory it takes over.
 *
 * @param {import('./internal.js').GraphState} graph
 * @param {Map<string, string>} donate names of inputs by names of outputs
 * @throws {TypeError} for unknown names
 */
function donationsOf({ inputs, outputs }, donate) {
  return [...donate].map(([output, input]) => [placeOf(outputs, 'output', output), placeOf(inputs, 'input', input)]);
}

module.exports = { donationsOf, toDispatchOptions };

// The inputs and outputs of decoders as they are named for Transformers.js: tokens, a mask and a growing cache in, logits out.

import { INT64, value } from './model-writer.mjs';

/**
 * What differs between decoders.
 * @typedef {object} DecoderStyle
 * @property {number} type of the elements of cache and logits
 * @property {number} vocabulary
 * @property {string[]} cache names of its parts, such as `0.key`
 * @property {number} heads of each part
 * @property {number} size of a head
 * @property {boolean} positions whether there is an input position_ids
 */

/**
 * The inputs and outputs of a decoder.
 * @param {DecoderStyle} style
 */
export function decoderValues({ type, vocabulary, cache, heads, size, positions }) {
  const parts = (/** @type {string} */ prefix, /** @type {string} */ length) =>
    cache.map((name) => value(`${prefix}.${name}`, type, ['batch_size', heads, length, size]));
  return {
    inputs: [
      value('input_ids', INT64, ['batch_size', 'sequence_length']),
      value('attention_mask', INT64, ['batch_size', 'total_sequence_length']),
      ...(positions ? [value('position_ids', INT64, ['batch_size', 'sequence_length'])] : []),
      ...parts('past_key_values', 'past_sequence_length'),
    ],
    outputs: [value('logits', type, ['batch_size', 'sequence_length', vocabulary]), ...parts('present', 'total_sequence_length')],
  };
}

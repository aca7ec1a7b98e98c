// Inputs, the same for all engines.

import { randomTensor } from 'webnn-node-text/random';

/** Seed of noise and prompts. */
const SEED = 1;

/**
 * Returns the input of an encoder-decoder: noise.
 *
 * @param {number} count of elements
 */
export const featuresOf = (count) => randomTensor('float32', [count], SEED).data;

/** Returns a prompt.
 *
 * @param {number} length
 * @param {number} vocabulary its last token, which begins or ends texts, is not used
 */
export const promptOf = (length, vocabulary) => Array.from(randomTensor('int32', [length], SEED, [0, vocabulary - 2]).data, Number);

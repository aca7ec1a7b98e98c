// What engines are given: the same in all of them.

import { randomTensor } from 'webnn-node-cli/lib/random.mjs';

/** Of noise and prompts. */
const SEED = 1;

/**
 * What an encoder-decoder hears: noise.
 *
 * @param {number} count of elements
 */
export const featuresOf = (count) => randomTensor('float32', [count], SEED).data;

/**
 * A prompt.
 *
 * @param {number} length
 * @param {number} vocabulary the last token, which ends or begins texts, is not in it
 */
export const promptOf = (length, vocabulary) => Array.from(randomTensor('int32', [length], SEED, [0, vocabulary - 2]).data, Number);

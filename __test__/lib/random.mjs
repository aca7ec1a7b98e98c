/** Random numbers that are the same in every run. */

import { randomNumbers, randomTensor } from 'webnn-node-text/random';

/**
 * A random number generator: every run does the same.
 *
 * @param {number} seed
 */
export function generator(seed) {
  const next = randomNumbers(seed);
  /** An integer below `limit`. */
  const below = (/** @type {number} */ limit) => Math.floor(next() * limit);
  const chance = (/** @type {number} */ p) => next() < p;
  /** @type {<T>(items: readonly T[]) => T} */
  const pick = (items) => items[below(items.length)];
  return { next, below, chance, pick };
}

/**
 * Float32 numbers between -1 and 1.
 *
 * @param {number} length
 * @param {number} [seed]
 */
export const randomFloats = (length, seed = 1) => /** @type {Float32Array<ArrayBuffer>} */ (randomTensor('float32', [length], seed).data);

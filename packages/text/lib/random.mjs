// Repeatable random elements of tensors.
import { arrayFromNumbers, elementCount, isFloat } from './elements.mjs';

/**
 * Creates a generator of uniform numbers in 0..1 from a 32-bit seed: mulberry32, which is the same on every machine.
 * @param {number} seed
 */
export function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Creates a tensor of uniform random elements.
 * @param {string} dataType
 * @param {readonly number[]} shape
 * @param {number} seed 0 to 2³² − 1
 * @param {[number, number]} [range] smallest and largest value. Without it, floats are in -1..1 and integers are 0 or
 *   1, which are valid tokens, token types, masks and classes in any model
 */
export function randomTensor(dataType, shape, seed, range) {
  const next = randomNumbers(seed);
  const [lowest, highest] = range ?? (isFloat(dataType) ? [-1, 1] : [0, 1]);
  const draw = isFloat(dataType) ? () => lowest + (highest - lowest) * next() : () => lowest + Math.floor(next() * (highest - lowest + 1));
  const numbers = new Float64Array(elementCount(shape));
  for (let i = 0; i < numbers.length; i++) numbers[i] = draw();
  return { dataType, shape, data: arrayFromNumbers(dataType, numbers) };
}

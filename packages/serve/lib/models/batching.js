// Which models read a token of several texts at once. The rule:
//
// 1. The first dimension of all inputs and outputs is free and has one name.
// 2. Each layer's attention is com.microsoft.GroupQueryAttention. It takes the length of each text from the mask and puts
//    new keys behind it, so texts of different lengths are padded at their ends. Attention that is written out in other
//    operators puts new keys behind the padding: its sums have another order, and so other bits.
// 3. A trial when the model is loaded, with every number of texts that will occur: the logits of each text must have the
//    bits that they have when the text is alone.
//
// Texts of other models take turns, token by token.

import { randomNumbers } from 'webnn-node-cli/lib/random.mjs';
import { batchDimension } from './tensor-model.js';

const ATTENTION = 'com.microsoft.GroupQueryAttention';

/** Numbers of texts up to this all occur; above, only multiples of it half: other rows are without a text. */
const ALL = 16;

/** Lengths of the texts of the trial. */
const LENGTHS = [3, 8];

/** Tokens of each text that are computed together in the trial: what one writes into the cache, the next one reads. */
const STEPS = 2;

/**
 * The numbers of rows that occur.
 * @param {number} most
 */
export function rowCounts(most) {
  const counts = Array.from({ length: Math.min(ALL, most) }, (_, i) => i + 1);
  for (let count = (ALL * 3) / 2; count < most; count += ALL / 2) counts.push(count);
  return most > ALL ? [...counts, most] : counts;
}

const sameBits = (/** @type {ArrayLike<number>} */ a, /** @type {ArrayLike<number>} */ b) =>
  Array.prototype.every.call(a, (value, i) => Object.is(value, b[i]));

/**
 * Compares texts that are computed alone with the same ones that are computed together.
 * @param {import('./decoder.js').Decoder} decoder
 * @param {number} vocabulary
 * @param {readonly number[]} counts of rows
 * @returns {Promise<string | null>} what differs
 */
async function trial(decoder, vocabulary, counts) {
  const random = randomNumbers(1);
  const texts = LENGTHS.map((length) => Array.from({ length: length + STEPS }, () => Math.floor(random() * vocabulary)));
  const alone = await Promise.all(
    texts.map(async (ids, i) => {
      const { cache: begun } = await decoder.run([ids.slice(0, LENGTHS[i])], decoder.empty);
      const steps = [];
      let cache = begun;
      for (const id of ids.slice(LENGTHS[i])) {
        const step = await decoder.run([[id]], cache);
        steps.push(step.logits[0]);
        cache = step.cache;
      }
      return { begun, steps };
    }),
  );
  for (const count of counts) {
    const which = Array.from({ length: count }, (_, row) => row % texts.length);
    let cache = await decoder.merge(which.map((i) => ({ cache: alone[i].begun, row: 0 })));
    for (let step = 0; step < STEPS; step++) {
      const { logits, cache: next } = await decoder.run(
        which.map((i) => [texts[i][LENGTHS[i] + step]]),
        cache,
      );
      const different = which.find((i, row) => !sameBits(logits[row], alone[i].steps[step]));
      if (different !== undefined) return `${count} texts together give other logits than each alone`;
      cache = next;
    }
  }
  return null;
}

/**
 * Decides how a model's texts are computed.
 * @param {object} options
 * @param {import('./decoder.js').Decoder} options.decoder
 * @param {import('webnn-node/onnx').OnnxModel} options.model
 * @param {import('webnn-node-cli/lib/decoder.mjs').Decoder} options.described
 * @param {Record<string, number>} options.operators of the model, with their numbers
 * @param {number} options.maxSequences
 * @returns {Promise<{ counts: number[], reason: string }>} numbers of rows that are computed together, none if texts take
 *   turns; and why
 */
export async function chooseBatching({ decoder, model, described, operators, maxSequences }) {
  const inTurns = (/** @type {string} */ reason) => ({ counts: [], reason });
  if (maxSequences === 1) return inTurns('maxSequences is 1');
  if (batchDimension(model) === null) return inTurns('the first dimensions of its inputs and outputs are not one free dimension');
  if (operators[ATTENTION] !== described.cache.length / 2) return inTurns(`its attention is not ${ATTENTION}`);
  const counts = rowCounts(maxSequences);
  const different = await trial(decoder, described.vocabulary, counts.slice(1));
  return different === null ? { counts, reason: 'together as alone, bit for bit' } : inTurns(different);
}

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

import { randomNumbers } from 'webnn-node-text/random';
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
 * Reads a prompt, then token after token.
 * @param {import('./decoder.js').Decoder} decoder
 * @param {number[]} prompt
 * @param {number[]} ids
 * @returns {Promise<{ begun: import('./decoder.js').Cache, steps: ArrayLike<number>[] }>} the cache of the prompt, and the
 *   scores behind each token
 */
async function readAlone(decoder, prompt, ids) {
  const { cache: begun } = await decoder.read(prompt, decoder.empty);
  const steps = [];
  let cache = begun;
  for (const id of ids) {
    const step = await decoder.read([id], cache);
    if (cache !== begun) decoder.release(cache);
    steps.push(step.logits[0]);
    cache = step.cache;
  }
  decoder.release(cache);
  return { begun, steps };
}

/**
 * Compares texts that are computed alone with the same ones that are computed together.
 * @param {import('./decoder.js').Decoder} decoder
 * @param {number} vocabulary
 * @param {readonly number[]} counts of rows
 * @param {number} most tokens that the model can read
 * @returns {Promise<string | null>} what differs
 */
async function trial(decoder, vocabulary, counts, most) {
  const random = randomNumbers(1);
  const texts = LENGTHS.map((length) => Array.from({ length: length + STEPS }, () => Math.floor(random() * vocabulary)));
  const alone = await Promise.all(texts.map((ids, i) => readAlone(decoder, ids.slice(0, LENGTHS[i]), ids.slice(LENGTHS[i]))));
  const different = async (/** @type {number} */ count) => {
    const which = Array.from({ length: count }, (_, row) => row % texts.length);
    let cache = await decoder.merge(
      which.map((i) => ({ cache: alone[i].begun, row: 0 })),
      most,
    );
    for (let step = 0; step < STEPS; step++) {
      const ids = which.map((i) => texts[i][LENGTHS[i] + step]);
      const { logits, cache: next } = await decoder.step(ids, cache);
      cache = next;
      if (!which.every((i, row) => sameBits(logits[row], alone[i].steps[step]))) return true;
    }
    decoder.release(cache);
    return false;
  };
  for (const count of counts) if (await different(count)) return `${count} texts together give other logits than each alone`;
  for (const { begun } of alone) decoder.release(begun);
  return null;
}

/**
 * What speaks against computing texts together, as far as the file shows it.
 * @param {import('webnn-node/onnx').OnnxInspection} inspection
 * @returns {string | null}
 */
export function obstacle(inspection) {
  if (batchDimension(inspection) === null) return 'the first dimensions of its inputs and outputs are not one free dimension';
  const layers = inspection.inputs.filter(({ name }) => name.endsWith('.key')).length;
  return inspection.operators[ATTENTION] === layers ? null : `its attention is not ${ATTENTION}`;
}

/**
 * Decides how a model's texts are computed.
 * @param {object} options
 * @param {import('./decoder.js').Decoder} options.decoder
 * @param {number} options.vocabulary
 * @param {number} options.maxSequences
 * @param {number} options.maxLength tokens that the model can read
 * @param {string | null} options.obstacle
 * @returns {Promise<{ counts: number[], reason: string }>} numbers of rows that are computed together, none if texts take
 *   turns; and why
 */
export async function chooseBatching({ decoder, vocabulary, maxSequences, maxLength, obstacle: known }) {
  const counts = rowCounts(maxSequences);
  const reason = known ?? (maxSequences === 1 ? 'maxSequences is 1' : await trial(decoder, vocabulary, counts.slice(1), maxLength));
  return reason === null ? { counts, reason: 'together as alone, bit for bit' } : { counts: [], reason };
}

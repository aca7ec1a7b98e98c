// Language models with a cache, as exported for Transformers.js: inputs are `input_ids`, and the keys and values of the
// text so far (`past_key_values.N.key`); outputs are `logits`, and the longer cache (`present.N.key`). Other inputs are
// recognized by name.
import { cacheKey } from 'webnn-node/onnx';
import { arrayFromNumbers, numbersOf } from './elements.mjs';
import { formatShape, printable } from './format.mjs';

/** A model that lacks the inputs and outputs of such a language model. */
export class DecoderError extends Error {
  name = 'DecoderError';
}

/**
 * @typedef {object} CacheInput
 * @property {string} name
 * @property {string} output that becomes this input in the next step
 * @property {string} dataType
 * @property {number} heads
 * @property {number} size of a head
 */

/**
 * A language model with a cache, as plain data that JSON can represent.
 * @typedef {object} Decoder
 * @property {{ name: string, dataType: string }[]} inputs except the cache
 * @property {CacheInput[]} cache
 * @property {number} vocabulary number of tokens
 */

/** The keys of a layer's caches. */
const LAYER_KEY = /^\.\d+\.(?:key|value)$/;

const isCache = (/** @type {{ name: string }} */ { name }) => LAYER_KEY.test(cacheKey(name) ?? '');

/**
 * Whether inputs are those of such a language model.
 * @param {readonly { name: string }[]} inputs
 */
export const hasCache = (inputs) => inputs.some(isCache);

const LOGITS = 'logits';

/** The option of `loadModel()` for text generation, which reads only the last logits of a step. */
export const KEEP_LAST = { [LOGITS]: 1 };

/**
 * New tokens of several texts, as many of each, behind those that the cache holds of it. All rows of the cache have room for
 * `size` tokens; a row with fewer is padded at its end.
 * @typedef {{ rows: readonly (readonly number[])[], lengths: readonly number[], size: number }} Batch
 */

/**
 * Shape and elements of every input except the cache.
 * @type {Record<string, (batch: Batch) => { shape: number[], numbers: readonly number[] }>}
 */
const STEP_INPUTS = {
  input_ids: ({ rows }) => ({ shape: [rows.length, rows[0].length], numbers: rows.flat() }),
  attention_mask({ rows, lengths, size }) {
    const total = size + rows[0].length;
    return { shape: [rows.length, total], numbers: rows.flatMap((ids, row) => Array.from({ length: total }, (_, i) => Number(i < lengths[row] + ids.length))) };
  },
  position_ids: ({ rows, lengths }) => ({ shape: [rows.length, rows[0].length], numbers: rows.flatMap((ids, row) => ids.map((_, i) => lengths[row] + i)) }),
  use_cache_branch: ({ size }) => ({ shape: [1], numbers: [Number(size > 0)] }),
};

const listed = (/** @type {readonly { name: string }[]} */ values) => values.map(({ name }) => printable(name)).join(', ');

/**
 * @param {import('webnn-node/onnx').OnnxValueInfo} input
 * @param {readonly import('webnn-node/onnx').OnnxValueInfo[]} outputs
 * @returns {CacheInput}
 */
function cacheInput({ name, dataType, shape }, outputs) {
  const key = cacheKey(name);
  const output = outputs.find((candidate) => cacheKey(candidate.name) === key);
  if (output === undefined) {
    throw new DecoderError(`this model cannot generate text: it has no output present${key} for its input ${name}`);
  }
  const [, heads, , size] = shape ?? [];
  if (shape?.length !== 4 || typeof heads !== 'number' || typeof size !== 'number') {
    throw new DecoderError(
      `this model cannot generate text: its input ${name} is ${printable(formatShape(shape))}, expected [batch, heads, length, size] with two numbers for heads and size`,
    );
  }
  return { name, output: output.name, dataType, heads, size };
}

/** @param {readonly import('webnn-node/onnx').OnnxValueInfo[]} outputs */
function vocabularyOf(outputs) {
  const logits = outputs.find(({ name }) => name === LOGITS);
  if (logits === undefined) {
    throw new DecoderError(`this model cannot generate text: it has no output ${LOGITS}; its outputs: ${listed(outputs)}`);
  }
  const vocabulary = logits.shape?.at(-1);
  if (logits.shape?.length !== 3 || typeof vocabulary !== 'number') {
    throw new DecoderError(
      `this model cannot generate text: its output ${LOGITS} is ${printable(formatShape(logits.shape))}, expected [batch, length, vocabulary] with a number for the vocabulary`,
    );
  }
  return vocabulary;
}

/**
 * Finds the inputs and outputs of a language model by their names.
 * @param {{ readonly inputs: readonly import('webnn-node/onnx').OnnxValueInfo[], readonly outputs: readonly import('webnn-node/onnx').OnnxValueInfo[] }} model
 * @returns {Decoder}
 * @throws {DecoderError} with the missing names, or the inputs without a known value
 */
export function describeDecoder({ inputs, outputs }) {
  const cached = inputs.filter(isCache);
  if (cached.length === 0 || !inputs.some(({ name }) => name === 'input_ids')) {
    throw new DecoderError(`this model cannot generate text: expected the inputs input_ids and past_key_values.0.key, it has ${listed(inputs)}`);
  }
  const others = inputs.filter((input) => !cached.includes(input));
  const unknown = others.filter(({ name }) => !Object.hasOwn(STEP_INPUTS, name));
  if (unknown.length > 0) throw new DecoderError(`this model cannot generate text: no value is known for its input ${listed(unknown)}`);
  return {
    inputs: others.map(({ name, dataType }) => ({ name, dataType })),
    cache: cached.map((input) => cacheInput(input, outputs)),
    vocabulary: vocabularyOf(outputs),
  };
}

/**
 * Returns all inputs of a step except the cache, for several texts.
 * @param {Decoder} decoder
 * @param {Batch} batch
 * @returns {import('./types.mjs').Tensors}
 */
export function batchInputs({ inputs }, batch) {
  return Object.fromEntries(
    inputs.map(({ name, dataType }) => {
      const { shape, numbers } = STEP_INPUTS[name](batch);
      return [name, { dataType, shape, data: arrayFromNumbers(dataType, numbers) }];
    }),
  );
}

/**
 * Returns all inputs of a step except the cache.
 * @param {Decoder} decoder
 * @param {readonly number[]} ids new tokens, at least one
 * @param {number} past number of tokens in the cache
 */
export const stepInputs = (decoder, ids, past) => batchInputs(decoder, { rows: [ids], lengths: [past], size: past });

/**
 * Returns the cache before the first step.
 * @param {Decoder} decoder
 * @returns {import('./types.mjs').Tensors}
 */
export function emptyCache({ cache }) {
  return Object.fromEntries(
    cache.map(({ name, dataType, heads, size }) => [name, { dataType, shape: [1, heads, 0, size], data: arrayFromNumbers(dataType, []) }]),
  );
}

/**
 * Returns the cache for the next step: results of this one, by input name.
 * @template T
 * @param {Decoder} decoder
 * @param {Record<string, T>} results
 * @returns {Record<string, T>}
 */
export function nextCache({ cache }, results) {
  return Object.fromEntries(cache.map(({ name, output }) => [name, results[output]]));
}

/**
 * Returns the scores of all tokens for the position after the last one, of each text.
 * @param {import('./types.mjs').Tensor} logits [batch, length, vocabulary], float32 or float16
 */
export function batchLogits({ dataType, shape, data }) {
  const [count, length, vocabulary] = shape;
  return Array.from({ length: count }, (_, row) => {
    const end = (row + 1) * length * vocabulary;
    return numbersOf({ dataType, data: /** @type {import('./types.mjs').Elements} */ (data.subarray(end - vocabulary, end)) });
  });
}

/**
 * Returns the scores of all tokens for the position after the last one.
 * @param {import('./types.mjs').Tensor} logits [1, length, vocabulary], float32 or float16
 */
export const lastLogits = (logits) => batchLogits(logits)[0];

/**
 * Returns the index of the largest number; if there are several, of the first.
 * @param {ArrayLike<number>} numbers
 */
export function mostLikely(numbers) {
  let best = 0;
  for (let i = 1; i < numbers.length; i++) if (numbers[i] > numbers[best]) best = i;
  return best;
}

// Which output of an encoder is read, and how the states of tokens become the vector of a text.
//
// The rule, which gives the vectors of sentence-transformers for its folders, and of Transformers.js and text-embeddings-inference
// where the folder says what the pooling is:
//
// 1. An output that is the vector of a text (`sentence_embedding`, ...) was exported with all steps of the model, so it wins.
// 2. Then states of tokens, which are pooled as 1_Pooling/config.json says, or to their mean, as sentence-transformers does for
//    a folder that says nothing.
// 3. `pooler_output` comes last. It is the state of the first token behind a layer that BERT was trained with to guess whether
//    two sentences follow each other: nobody compares texts by it, although nearly every export has it.
//
// What would give other vectors than the folder describes is refused when the model is loaded.

import { RepositoryError } from '../registry/repository.js';

/** @typedef {'cls' | 'max' | 'mean' | 'mean_sqrt_len' | 'weightedmean' | 'last'} Pooling */

/**
 * @typedef {import('webnn-node/onnx').OnnxValueInfo} Output
 * @typedef {{ pooling: Pooling[] | null, isAssumed: boolean }} Plan null for an output that is the vector of a text; whether nothing
 *   in the folder says how to pool
 */

/** Outputs that are one vector for each text. */
const VECTORS = ['sentence_embedding', 'text_embeds', 'embedding', 'embeddings', 'sentence_embeddings'];

/** Outputs with a vector for each token. */
const STATES = ['last_hidden_state', 'token_embeddings', 'hidden_states'];

/** What BERT was trained with. */
const POOLER = 'pooler_output';

/** Scores, which say nothing about the meaning of a text. */
const SCORES = ['logits', 'start_logits', 'end_logits', 'scores', 'probabilities'];

/** How the vectors of a text's tokens become one. @type {Record<Pooling, (states: Float32Array, width: number, count: number) => ArrayLike<number>>} */
export const POOLINGS = {
  cls: (states, width) => states.subarray(0, width),
  max(states, width, count) {
    const largest = states.slice(0, width);
    for (let i = width; i < count * width; i++) largest[i % width] = Math.max(largest[i % width], states[i]);
    return largest;
  },
  mean: (states, width, count) => weightedSum(states, width, count, () => 1 / count),
  mean_sqrt_len: (states, width, count) => weightedSum(states, width, count, () => 1 / Math.sqrt(count)),
  // Later tokens have seen more of the text.
  weightedmean: (states, width, count) => weightedSum(states, width, count, (i) => (i + 1) / ((count * (count + 1)) / 2)),
  last: (states, width, count) => states.subarray((count - 1) * width, count * width),
};

/**
 * @param {Float32Array} states
 * @param {number} width
 * @param {number} count of tokens
 * @param {(index: number) => number} weightOf a token
 */
function weightedSum(states, width, count, weightOf) {
  const sum = new Float64Array(width);
  for (let token = 0; token < count; token++) {
    const weight = weightOf(token);
    for (let i = 0; i < width; i++) sum[i] += weight * states[token * width + i];
  }
  return sum;
}

/**
 * The vector of a text.
 * @param {readonly Pooling[]} pooling several are joined
 * @param {Float32Array} states of its tokens, and of padding behind them
 * @param {number} width of a state
 * @param {number} count of tokens
 */
export function pool(pooling, states, width, count) {
  const vector = new Float32Array(pooling.length * width);
  // Without tokens there is only padding.
  if (count === 0) return vector;
  pooling.forEach((name, i) => vector.set(POOLINGS[name](states, width, count), i * width));
  return vector;
}

const names = (/** @type {readonly { name: string }[]} */ outputs) => outputs.map(({ name }) => name).join(', ');

const isFloat = (/** @type {Output} */ { dataType }) => ['float32', 'float16'].includes(dataType);

/**
 * The output to read.
 * @param {readonly Output[]} outputs
 * @param {object} options
 * @param {string | null} options.output the setting
 * @param {Pooling[] | 'none' | null} options.pooling the setting
 * @param {boolean} options.needsStates whether only states give what the folder describes
 * @returns {Output}
 * @throws {RepositoryError}
 */
export function chooseOutput(outputs, { output: wanted, pooling, needsStates }) {
  if (wanted !== null) {
    const found = outputs.find(({ name }) => name === wanted);
    if (found === undefined) throw new RepositoryError(`the model has no output ${wanted}, which "output" in model.json names; it has ${names(outputs)}`);
    return found;
  }
  const rankOf = (/** @type {Output} */ { shape }) => shape?.length;
  const named = (/** @type {readonly string[]} */ list) => list.flatMap((name) => outputs.find((output) => output.name === name) ?? []);
  const others = outputs.filter((output) => rankOf(output) === 3 && isFloat(output) && !SCORES.includes(output.name));
  const vectors = named(VECTORS).filter((output) => rankOf(output) !== 3);
  const states = [...named(STATES), ...(others.length === 1 ? others : [])];
  // Whoever says how to pool means states, and the other way round.
  const isPooled = Array.isArray(pooling);
  const poolers = needsStates || isPooled ? [] : named([POOLER]);
  const [found] = [...(isPooled ? [] : vectors), ...(pooling === 'none' ? [] : states), ...poolers];
  if (found !== undefined) return found;
  const reason =
    needsStates || isPooled ? 'the states of tokens are to be pooled, and no output has them' : 'no output is known to be the vector of a sequence';
  throw new RepositoryError(
    `${reason}: the model has ${names(outputs)}, expected ${[...VECTORS, ...STATES].join(', ')}. Set "output" in model.json, or "kind" to "tensors" if the model is for something else`,
  );
}

/**
 * How vectors come of an output.
 * @param {{ name: string, rank: number }} output as it was computed
 * @param {import('../text/sentence.js').Sentence} sentence what the folder says
 * @param {Pooling[] | 'none' | null} setting
 * @returns {Plan}
 * @throws {RepositoryError}
 */
export function planOf({ name, rank }, { pooling, layers }, setting) {
  if (rank === 2) {
    if (setting !== null && setting !== 'none')
      throw new RepositoryError(`the output ${name} has one vector per sequence: "pooling" in model.json must be "none"`);
    return { pooling: null, isAssumed: false };
  }
  if (setting === 'none') throw new RepositoryError(`the output ${name} has a vector for each token: "pooling" in model.json cannot be "none"`);
  if (setting === null && layers.length > 0) {
    throw new RepositoryError(
      `modules.json has ${layers.join(', ')} behind the states, and the output ${name} does not contain that: export the model with its output sentence_embedding, or set "pooling" in model.json to do without`,
    );
  }
  return { pooling: setting ?? pooling ?? ['mean'], isAssumed: setting === null && pooling === null };
}

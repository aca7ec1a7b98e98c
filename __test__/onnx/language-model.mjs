// A language model without any training: it adds up what its cache holds, and a table tells the next token. A wrong mask,
// position or cache gives another sum.

import { decoderValues } from './decoder-values.mjs';
import { BOOL, FLOAT, FLOAT16, INT64, node, value, weight, writeModel } from './model-writer.mjs';

const [HEADS, SIZE] = [2, 4];

/** What keys and values hold of a token, together. */
const held = (/** @type {number} */ id) => 3 * id + 1;

/** The sum of a first step of a model with branches is larger by this. */
const FIRST_BRANCH = 5;

/** Scores of the right tokens; others are below 1. */
const LARGEST = 8;

/**
 * What varies between the models that are published.
 * @typedef {object} Style
 * @property {number} vocabulary up to 500: float16 holds what the cache has of a token
 * @property {boolean} [half] float16 cache and logits
 * @property {boolean} [positions] input position_ids
 * @property {boolean} [branch] input use_cache_branch
 * @property {(sum: number) => number} next the token for each sum below `vocabulary`
 */

/**
 * The scores of a token for each sum.
 * @param {Style} style
 */
function table({ vocabulary, next }) {
  const scores = Float32Array.from({ length: vocabulary ** 2 }, (_, i) => ((i * 7) % 11) / 11);
  for (let sum = 0; sum < vocabulary; sum++) scores[sum * vocabulary + next(sum)] = LARGEST;
  return scores;
}

/**
 * The token that is most likely to follow `ids`, the first `past` of which were in the cache.
 * @param {Style} style
 * @param {number[]} ids
 * @param {number} past
 */
export function nextToken({ vocabulary, positions = false, branch = false, next }, ids, past) {
  const sum = ids.reduce((total, id) => total + held(id), 0);
  return next((sum + (positions ? ids.length - 1 : 0) + (branch && past === 0 ? FIRST_BRANCH : 0)) % vocabulary);
}

/**
 * The most likely tokens behind a prompt that is read in one step.
 * @param {Style} style
 * @param {number[]} prompt
 * @param {number} count
 */
export function greedyTokens(style, prompt, count) {
  const ids = [...prompt];
  while (ids.length < prompt.length + count) ids.push(nextToken(style, ids, ids.length === prompt.length ? 0 : ids.length - 1));
  return ids.slice(prompt.length);
}

const ints = (/** @type {string} */ name, /** @type {number[]} */ numbers) => weight(name, [numbers.length], BigInt64Array.from(numbers, BigInt));

/** The new tokens in the shape of the cache, behind what it held. @param {number} type of its elements */
const cacheNodes = (type) => [
  node('Cast', ['input_ids'], ['ids'], { to: { i: FLOAT } }),
  node('Reshape', ['ids', 'as_heads'], ['column']),
  node('Expand', ['column', 'all_heads'], ['keys']),
  node('Mul', ['keys', 'two'], ['doubled']),
  node('Add', ['doubled', 'one'], ['values']),
  ...[
    ['keys', 'key'],
    ['values', 'value'],
  ].flatMap(([fresh, kind]) => [
    node('Cast', [fresh], [`new_${kind}`], { to: { i: type } }),
    node('Concat', [`past_key_values.0.${kind}`, `new_${kind}`], [`present.0.${kind}`], { axis: { i: 2 } }),
    node('Cast', [`present.0.${kind}`], [`all_${kind}`], { to: { i: FLOAT } }),
  ]),
];

/** For each new token, the sum of the unmasked part of the cache up to that token: [1, new tokens]. */
const SUM_NODES = [
  node('Add', ['all_key', 'all_value'], ['held']),
  node('ReduceMean', ['held'], ['each'], { axes: { ints: [1, 3] } }),
  node('Cast', ['attention_mask'], ['mask'], { to: { i: FLOAT } }),
  node('Reshape', ['mask', 'as_heads'], ['mask_column']),
  node('Mul', ['each', 'mask_column'], ['masked']),
  node('CumSum', ['masked', 'length_axis'], ['sums']),
  node('Shape', ['input_ids'], ['shape']),
  node('Slice', ['shape', 'one_int', 'two_int'], ['fresh_length']),
  node('Neg', ['fresh_length'], ['from']),
  node('Slice', ['sums', 'from', 'end', 'length_axes'], ['fresh_sums']),
  node('Reshape', ['fresh_sums', 'as_row'], ['row']),
];

/**
 * The bytes of the model file, with inputs and outputs as they are named for Transformers.js.
 * @param {Style} style
 */
export function languageModel(style) {
  const { vocabulary, half = false, positions = false, branch = false } = style;
  const type = half ? FLOAT16 : FLOAT;
  const { inputs, outputs } = decoderValues({ type, vocabulary, cache: ['0.key', '0.value'], heads: HEADS, size: SIZE, positions });
  const nodes = [...cacheNodes(type), ...SUM_NODES];
  let sum = 'row';
  const add = (/** @type {string} */ name, /** @type {ReturnType<typeof node>[]} */ ...made) => {
    nodes.push(...made, node('Add', [sum, name], [`${sum}_${name}`]));
    sum = `${sum}_${name}`;
  };
  if (positions) add('places', node('Cast', ['position_ids'], ['places'], { to: { i: FLOAT } }));
  if (branch) add('extra', node('Where', ['use_cache_branch', 'zero', 'first_branch'], ['extra']));
  nodes.push(
    node('Cast', [sum], ['whole'], { to: { i: INT64 } }),
    node('Mod', ['whole', 'vocabulary'], ['index']),
    node('Gather', ['table', 'index'], ['scores']),
    node('Cast', ['scores'], ['logits'], { to: { i: type } }),
  );
  return writeModel({
    inputs: [...inputs, ...(branch ? [value('use_cache_branch', BOOL, [1])] : [])],
    outputs,
    nodes,
    weights: [
      ints('as_heads', [1, 1, -1, 1]),
      ints('all_heads', [1, HEADS, 1, SIZE]),
      ints('as_row', [1, -1]),
      ints('length_axes', [2]),
      ints('one_int', [1]),
      ints('two_int', [2]),
      ints('end', [2 ** 31 - 1]),
      ints('vocabulary', [vocabulary]),
      weight('length_axis', [], BigInt64Array.of(2n)),
      weight('one', [], Float32Array.of(1)),
      weight('two', [], Float32Array.of(2)),
      weight('zero', [], Float32Array.of(0)),
      weight('first_branch', [], Float32Array.of(FIRST_BRANCH)),
      weight('table', [vocabulary, vocabulary], table(style)),
    ],
  });
}

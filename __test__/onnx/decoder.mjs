// A small decoder in the form in which language models are published: tokens, a mask and a growing cache in, logits out,
// with GroupQueryAttention. Its weights are numbers without a meaning.

import { decoderValues } from './decoder-values.mjs';
import { FLOAT, INT32, node, weight, writeModel } from './model-writer.mjs';

export const VOCABULARY = 32;
/** How many positions there are. */
export const CONTEXT = 16;
export const LAYERS = 2;
const [HEADS, SHARED, SIZE] = [2, 1, 16];
const PACKED = (HEADS + 2 * SHARED) * SIZE;

/** @param {string} name @param {number[]} dims */
const table = (name, dims) =>
  weight(
    name,
    dims,
    Float32Array.from({ length: dims.reduce((a, b) => a * b) }, (_, i) => (((i * 7919 + name.length * 104729) % 101) - 50) / 100),
  );

const rotation = (/** @type {(x: number) => number} */ f, /** @type {number} */ context) =>
  Float32Array.from({ length: (context * SIZE) / 2 }, (_, i) => f(Math.floor(i / (SIZE / 2)) / 10 ** ((i % (SIZE / 2)) / 2)));

/** The names of the cache, in the order of the inputs. */
export const CACHE = Array.from({ length: LAYERS }, (_, i) => [`${i}.key`, `${i}.value`]).flat();

/** The shape of a part of the cache. */
export const cacheShape = (/** @type {number} */ length, heads = SHARED) => [1, heads, length, SIZE];

/**
 * The bytes of the model.
 * @param {object} [style]
 * @param {boolean} [style.positions] the input position_ids, which are looked up in a table, instead of rotation
 * @param {string} [style.embedding] the name of the node that looks tokens up
 * @param {number} [style.vocabulary]
 * @param {number} [style.context]
 */
export function decoder({ positions = false, embedding = 'embed', vocabulary = VOCABULARY, context = CONTEXT } = {}) {
  const nodes = [
    node('ReduceSum', ['attention_mask', 'axis'], ['mask_sum'], { keepdims: { i: 0 } }),
    node('Sub', ['mask_sum', 'one'], ['last']),
    node('Cast', ['last'], ['seqlens_k'], { to: { i: INT32 } }),
    node('Shape', ['attention_mask'], ['mask_shape']),
    node('Gather', ['mask_shape', 'index'], ['longest']),
    node('Cast', ['longest'], ['total'], { to: { i: INT32 } }),
    node('Gather', ['table', 'input_ids'], ['embedded'], {}, embedding),
  ];
  let x = 'embedded';
  if (positions) {
    nodes.push(node('Gather', ['places', 'position_ids'], ['place'], {}, 'positions'), node('Add', ['embedded', 'place'], ['placed']));
    x = 'placed';
  }
  for (let i = 0; i < LAYERS; i++) {
    const past = ['key', 'value'].map((kind) => `past_key_values.${i}.${kind}`);
    const rotary = positions ? [] : ['cos', 'sin'];
    const made = [`attended.${i}`, `present.${i}.key`, `present.${i}.value`];
    const heads = { num_heads: { i: HEADS }, kv_num_heads: { i: SHARED }, do_rotary: { i: positions ? 0 : 1 } };
    nodes.push(
      node('com.microsoft.GroupQueryAttention', [x, '', '', ...past, 'seqlens_k', 'total', ...rotary], made, heads, `attention.${i}`),
      node('MatMul', [`attended.${i}`, `out.${i}`], [i === LAYERS - 1 ? 'logits' : `hidden.${i}`]),
    );
    x = `hidden.${i}`;
  }
  return writeModel({
    ...decoderValues({ type: FLOAT, vocabulary, cache: CACHE, heads: SHARED, size: SIZE, positions }),
    nodes,
    weights: [
      weight('axis', [1], BigInt64Array.of(1n)),
      weight('one', [1], BigInt64Array.of(1n)),
      weight('index', [], BigInt64Array.of(1n)),
      table('table', [vocabulary, PACKED]),
      ...(positions
        ? [table('places', [context, PACKED])]
        : [weight('cos', [context, SIZE / 2], rotation(Math.cos, context)), weight('sin', [context, SIZE / 2], rotation(Math.sin, context))]),
      ...Array.from({ length: LAYERS }, (_, i) => table(`out.${i}`, [HEADS * SIZE, i === LAYERS - 1 ? vocabulary : PACKED])),
    ],
  });
}

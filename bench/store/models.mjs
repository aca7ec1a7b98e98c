// The models of the benchmark: networks with random weights, written once under target/.

import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { randomNumbers } from 'webnn-node-text/random';
import { withLabel } from '../../packages/cli/lib/progress.mjs';
import { root } from '../../scripts/process.mjs';
import { generateModels, sources as generatorSources } from '../generate/models.mjs';
import { rewriteIfStale } from '../../scripts/rewrite-stale.mjs';
import { encoder } from '../zoo/embedder.mjs';
import { extentOf, Layers } from '../zoo/layers.mjs';
import { RESNET_50 } from '../zoo/pictures.mjs';
import { writeNetwork } from '../zoo/reference.mjs';
import { gpt2, gruDenoise } from '../zoo/sequences.mjs';
import { sources } from '../zoo/write.mjs';

/** @typedef {import('../zoo/network.mjs').Tensor} Tensor */

/** The sizes of Llama 3.2 1B with more layers, and with the vocabulary of Llama 2. */
const LLAMA = { layers: 20, hidden: 2048, heads: 32, kvHeads: 8, inner: 8192, vocabulary: 32000, head: 64, context: 2048 };

/** Weights along the depth that share a scale. */
const BLOCK = 32;

/** The deviation of numbers from -8 to 7 that are all as likely. */
const NIBBLE_DEVIATION = 4.61;

/** Cached tokens of the language models when a token is measured. */
const PAST = 255;

/** The length of the texts to embed. */
export const TOKENS = 16;

/** The number of layers of the language model with weights of 4 bits. */
class FourBitLayers extends Layers {
  #matrices = 0;

  /** A product with a matrix of 4 bits, symmetric. @param {Tensor} x @param {number} columns @param {number} [gain] */
  product(x, columns, gain = 1) {
    const depth = extentOf(x, -1);
    const [seed, blocks] = [++this.#matrices, depth / BLOCK];
    const shape = [columns, blocks, BLOCK / 2];
    const bytes = this.stored('uint8', shape, () => randomBytes(seed, columns * blocks * (BLOCK / 2)), 'weight');
    const scale = gain / (NIBBLE_DEVIATION * Math.sqrt(depth));
    const attributes = { K: depth, N: columns, bits: 4, block_size: BLOCK };
    const inputs = [x, bytes, this.weight([columns * blocks], scale / 10, scale)];
    return this.node('com.microsoft.MatMulNBits', inputs, attributes, x.shape.with(-1, columns));
  }
}

/** @param {number} seed @param {number} count */
function randomBytes(seed, count) {
  const next = randomNumbers(seed);
  const words = new Uint32Array(count / 4);
  for (let i = 0; i < words.length; i++) words[i] = next() * 2 ** 32;
  return new Uint8Array(words.buffer);
}

/** A decoder as onnxruntime-genai's model builder writes it, with free sizes. */
function llama({ layers, hidden, heads, kvHeads, inner, vocabulary, head, context } = LLAMA) {
  const n = new FourBitLayers('llama');
  const epsilon = 1e-5;
  const free = ['batch_size', 'sequence_length'];
  const ids = n.input('input_ids', 'int64', free, () => 1);
  const mask = n.input('attention_mask', 'int64', ['batch_size', 'total_sequence_length'], () => 1);
  const angles = (/** @type {(angle: number) => number} */ of) =>
    Array.from({ length: (context * head) / 2 }, (_, at) => of(Math.floor(at / (head / 2)) / 10000 ** ((2 * (at % (head / 2))) / head)));
  const rotary = [Math.cos, Math.sin].map((of) => n.constant(angles(of), [context, head / 2]));
  const total = n.node('ReduceSum', [mask, n.integers([1])], { keepdims: 0 }, ['batch_size']);
  const last = n.node('Cast', [n.subtract(total, n.integers([1]))], { to: 6 });
  const length = n.node('Gather', [n.node('Shape', [mask], {}, [2]), n.integers(1)], { axis: 0 }, []);
  const longest = n.node('Cast', [length], { to: 6 });
  const norm = () => n.weight([hidden], 0.1, 1);

  let skip = n.gather(n.weight([vocabulary, hidden], 0.5), ids);
  let x = n.node('SimplifiedLayerNormalization', [skip, norm()], { axis: -1, epsilon, stash_type: 1 });
  /** Returns the normal sum, and the sum. @param {Tensor} a @param {Tensor} b */
  const addAndNorm = (a, b) => {
    const [normal, , , sum] = n.nodeOf('com.microsoft.SkipSimplifiedLayerNormalization', [a, b, norm()], { epsilon }, [a.shape, [], [], a.shape]);
    // What is between them is for training.
    n.nodes[n.nodes.length - 1].outputs.fill(undefined, 1, 3);
    return [normal, sum];
  };
  for (let layer = 0; layer < layers; layer++) {
    const cache = ['key', 'value'].map((kind) =>
      n.input(`past_key_values.${layer}.${kind}`, 'float32', ['batch_size', kvHeads, 'past_sequence_length', head], () => 0),
    );
    const [q, k, v] = [heads, kvHeads, kvHeads].map((count) => n.product(x, count * head));
    const attributes = { num_heads: heads, kv_num_heads: kvHeads, scale: head ** -0.5, do_rotary: 1 };
    const present = cache[0].shape.with(2, 'total_sequence_length');
    const inputs = [q, k, v, ...cache, last, longest, ...rotary];
    const [y, ...presents] = n.nodeOf('com.microsoft.GroupQueryAttention', inputs, attributes, [q.shape, present, present]);
    for (const [i, kind] of ['key', 'value'].entries()) n.output(presents[i], `present.${layer}.${kind}`);
    const [normal, mid] = addAndNorm(skip, n.product(y, hidden, 0.5));
    const gated = n.multiply(n.silu(n.product(normal, inner)), n.product(normal, inner));
    [x, skip] = addAndNorm(mid, n.product(gated, hidden, 0.5));
  }
  n.output(n.product(x, vocabulary, 3), 'logits');
  return n;
}

/** Resnet-50 whose normalizations are nodes of their own. */
function resnet50() {
  const n = new Layers('resnet50 with normalizations');
  const conv = (/** @type {Tensor} */ x, /** @type {number} */ channels, /** @type {number} */ filter, options = {}) =>
    n.batchNorm(n.conv(x, channels, filter, { bias: false, ...options }));
  let x = n.maxPool(n.relu(conv(n.picture('input', 224), 64, 7, { stride: 2 })), 3, { stride: 2, pad: 1 });
  for (const [stage, [channels, blocks]] of RESNET_50.entries()) {
    for (let block = 0; block < blocks; block++) {
      const stride = stage > 0 && block === 0 ? 2 : 1;
      let y = n.relu(conv(x, channels, 1));
      y = conv(n.relu(conv(y, channels, 3, { stride })), 4 * channels, 1, { gain: 0.6 });
      if (block === 0) x = conv(x, 4 * channels, 1, { stride, gain: 1 });
      x = n.relu(n.add(y, x));
    }
  }
  n.output(n.gemm(n.pooled(x), 1000, { gain: 1.5 }), 'logits');
  return n;
}

/**
 * What an input is fed: all elements are the same, or those of integers count up to a limit.
 *
 * @typedef {object} Feed
 * @property {'float32' | 'int64'} dataType
 * @property {number[]} shape
 * @property {number} value of every element
 * @property {number} [below] of elements that count up from `value`
 */

/** @param {number[]} shape @returns {Feed} */
const floats = (shape) => ({ dataType: 'float32', shape, value: 0.1 });

/** @param {number[]} shape @param {number} value @param {number} [below] @returns {Feed} */
const integers = (shape, value, below) => ({ dataType: 'int64', shape, value, below });

/** @param {number} layers @param {(layer: number, kind: string) => [name: string, shape: number[]]} of */
const caches = (layers, of) =>
  Object.fromEntries(
    Array.from({ length: layers }, (_, layer) => ['key', 'value'].map((kind) => of(layer, kind)))
      .flat()
      .map(([name, shape]) => [name, floats(shape)]),
  );

/** @typedef {{ title: string, network: () => Layers, feeds: Record<string, Feed>, output: string, isFree: boolean }} StoreModel `isFree`: has free sizes */

/** @typedef {keyof typeof MODELS} ModelName */

const { layers: LLAMA_LAYERS, kvHeads, head } = LLAMA;

export const MODELS = {
  resnet50: model({ title: 'resnet50', network: resnet50, feeds: { input: floats([1, 3, 224, 224]) }, output: 'logits' }),
  embedder: model({
    title: 'embedder',
    network: () => encoder(),
    feeds: {
      input_ids: integers([1, TOKENS], 1000, 30000),
      attention_mask: integers([1, TOKENS], 1),
      token_type_ids: integers([1, TOKENS], 0),
    },
    output: 'last_hidden_state',
    isFree: true,
  }),
  gpt2: model({
    title: 'GPT-2',
    network: () => gpt2({ length: 1, past: PAST }),
    feeds: {
      input_ids: integers([1, 1], 1000),
      position_ids: integers([1, 1], PAST),
      attention_mask: integers([1, PAST + 1], 1),
      ...caches(12, (layer, kind) => [`past_${kind}_${layer}`, [1, 12, PAST, 64]]),
    },
    output: 'logits',
  }),
  q4: model({
    title: 'decoder, 4 bits',
    network: () => llama(),
    feeds: {
      input_ids: integers([1, 1], 1000),
      attention_mask: integers([1, PAST + 1], 1),
      ...caches(LLAMA_LAYERS, (layer, kind) => [`past_key_values.${layer}.${kind}`, [1, kvHeads, PAST, head]]),
    },
    output: 'logits',
    isFree: true,
  }),
  /** 10 ms of sound: calls cost more than products. */
  denoise: model({
    title: 'noise suppression',
    network: gruDenoise,
    feeds: { features: floats([1, 42]), h1: floats([1, 1, 24]), h2: floats([1, 1, 48]), h3: floats([1, 1, 96]) },
    output: 'gains',
  }),
};

/** @param {Omit<StoreModel, 'isFree'> & { isFree?: boolean }} parts @returns {StoreModel} */
function model(parts) {
  return { isFree: false, ...parts };
}

/** The folder of the models. */
const FOLDER = join(root, 'target', 'store-models');

/** @param {ModelName} name */
export const fileOf = (name) => join(FOLDER, name, 'model.onnx');

const GGUF_FOLDER = join(root, 'target', 'store-gguf');

/** The decoder of 4 bits as llama.cpp reads it, with weights of its own. */
export const ggufFile = () => join(GGUF_FOLDER, 'decoder', 'model-Q4_0.gguf');

/** The size of a model's file, which is nearly all weights. @param {ModelName} name */
export const bytesOf = (name) => statSync(fileOf(name)).size;

/**
 * Writes the models that are missing or that other sources wrote.
 *
 * @param {ModelName[]} names
 */
export async function writeModels(names) {
  const source = `${sources()}${readFileSync(new URL(import.meta.url), 'utf8')}`;
  for (const name of names) {
    await rewriteIfStale(join(FOLDER, name), source, () => withLabel(`model ${name}`, () => writeNetwork(MODELS[name].network(), fileOf(name))));
  }
}

/** Writes the model for llama.cpp if it is missing or another generator wrote it. */
export async function writeGguf() {
  const options = ['--large', '--types', '', '--gguf', 'Q4_0', '--no-whisper'];
  await rewriteIfStale(GGUF_FOLDER, generatorSources(), () => generateModels(GGUF_FOLDER, options));
}

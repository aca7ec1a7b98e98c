// Text generation directly on a library that runs ONNX models: feeds cache results back unchanged, and continues with
// the token of the largest logit. Tests generate texts the same way.

import { join } from 'node:path';
import { elementCount } from 'webnn-node-text/elements';
import { decoderFile, folderOf, TYPES, vocabularyOf, WHISPER_FILES } from './catalog.mjs';
import { featuresOf } from './inputs.mjs';
import { generateBy } from './timeline.mjs';

/** @typedef {Record<string, import('./types.d.mts').RuntimeTensor>} Tensors */

/** Prefixes of the cache's inputs and outputs. */
const PAST = 'past_key_values.';
const PRESENT = 'present.';

/**
 * Creates an empty cache.
 *
 * @param {import('./types.d.mts').Runtime} runtime
 * @param {import('./types.d.mts').RuntimeModel} model
 * @param {'float32' | 'float16'} dataType
 * @returns {Tensors}
 */
function emptyCache(runtime, { inputs }, dataType) {
  const names = inputs.filter(({ name }) => name.startsWith(PAST));
  return Object.fromEntries(
    names.map(({ name, shape }) => {
      const [, heads, , size] = /** @type {number[]} */ (shape);
      const data = dataType === 'float16' ? new Uint16Array() : new Float32Array();
      return [name, runtime.tensor(dataType, data, [1, heads, 0, size])];
    }),
  );
}

/**
 * Returns the cache among the results of a run, as feeds of the next run.
 *
 * @param {Tensors} results
 * @param {(name: string) => boolean} [isWanted]
 */
function cacheOf(results, isWanted = () => true) {
  const present = Object.entries(results).filter(([name]) => name.startsWith(PRESENT) && isWanted(name));
  return Object.fromEntries(present.map(([name, tensor]) => [name.replace(PRESENT, PAST), tensor]));
}

/**
 * @param {import('./types.d.mts').Runtime} runtime
 * @param {number[]} ids
 */
const idsTensor = (runtime, ids) => runtime.tensor('int64', BigInt64Array.from(ids, BigInt), [1, ids.length]);

/**
 * Maps the bits of a float16 to an integer of the same order: converting to floats would take longer than some models
 * run.
 */
const orderOfHalf = (/** @type {number} */ bits) => (bits & 0x8000 ? -(bits & 0x7fff) : bits);

/**
 * Returns the index of the largest logit after the last token.
 *
 * @param {import('./types.d.mts').RuntimeTensor} logits of all tokens of a run; float16 may be its bits
 * @param {number} vocabulary
 */
export function likeliest({ data }, vocabulary) {
  const start = data.length - vocabulary;
  const order = data instanceof Uint16Array ? orderOfHalf : (/** @type {number} */ logit) => logit;
  let best = 0;
  let largest = -Infinity;
  for (let i = 0; i < vocabulary; i++) {
    const value = order(data[start + i]);
    if (value > largest) [largest, best] = [value, i];
  }
  return best;
}

/**
 * @param {import('./types.d.mts').Runtime} runtime
 * @param {import('./types.d.mts').ModelChoice} choice
 * @returns {Promise<() => import('./types.d.mts').Text>}
 */
async function openDecoder(runtime, { models, type, threads }) {
  const model = await runtime.open(decoderFile(models, type), threads);
  /** @returns {import('./types.d.mts').Text} */
  const textWith = (/** @type {Tensors} */ cache, /** @type {number} */ past) => async (tokens) => {
    const length = past + tokens.length;
    const mask = runtime.tensor('int64', new BigInt64Array(length).fill(1n), [1, length]);
    const results = await model.run({ input_ids: idsTensor(runtime, tokens), attention_mask: mask, ...cache });
    return { logits: results.logits, text: textWith(cacheOf(results), length) };
  };
  return () => textWith(emptyCache(runtime, model, TYPES[type].dataType), 0);
}

/**
 * @param {import('./types.d.mts').Runtime} runtime
 * @param {import('./types.d.mts').ModelChoice} choice
 * @returns {Promise<() => import('./types.d.mts').Text>}
 */
async function openWhisper(runtime, { models, type, threads }) {
  const { dataType } = TYPES[type];
  const open = (/** @type {string} */ name) => runtime.open(join(folderOf(models, type), 'onnx', name), threads);
  const encoder = await open(WHISPER_FILES.encoder);
  const decoder = await open(WHISPER_FILES.decoder);
  const [{ shape }] = encoder.inputs;
  const [, ...sizes] = /** @type {number[]} */ (shape);
  const features = runtime.tensor(dataType, featuresOf(elementCount(sizes)), [1, ...sizes]);
  const heard = async () => ({
    encoder_hidden_states: (await encoder.run({ input_features: features })).last_hidden_state,
    ...emptyCache(runtime, decoder, dataType),
  });
  /** @returns {import('./types.d.mts').Text} */
  const textWith = (/** @type {Tensors | undefined} */ past) => async (tokens) => {
    const isFirst = past === undefined;
    const known = past ?? (await heard());
    const branch = runtime.tensor('bool', Uint8Array.of(isFirst ? 0 : 1), [1]);
    const results = await decoder.run({ input_ids: idsTensor(runtime, tokens), use_cache_branch: branch, ...known });
    // With a cache, the encoder's part of the results is empty.
    return { logits: results.logits, text: textWith({ ...known, ...cacheOf(results, (name) => isFirst || !name.includes('.encoder.')) }) };
  };
  return () => textWith(undefined);
}

/**
 * Opens a model in a library.
 *
 * @param {import('./types.d.mts').Runtime} runtime
 * @param {import('./types.d.mts').ModelChoice} choice
 * @returns {Promise<() => import('./types.d.mts').Text>} starts a text without tokens
 */
export const openDirect = (runtime, choice) => (TYPES[choice.type].model === 'whisper' ? openWhisper : openDecoder)(runtime, choice);

/**
 * Loads a model in a library, as an engine of the benchmark.
 *
 * @param {import('./types.d.mts').Runtime} runtime
 * @param {import('./types.d.mts').GenerateLoad} parameters
 * @returns {Promise<import('./types.d.mts').Generator>}
 */
export async function loadDirect(runtime, parameters) {
  const start = performance.now();
  const vocabulary = vocabularyOf(parameters.models, parameters.type);
  const begin = await openDirect(runtime, parameters);
  const loadMs = performance.now() - start;
  return {
    version: runtime.version,
    loadMs,
    generate(request) {
      let text = begin();
      return generateBy(request, async (tokens) => {
        const step = await text(tokens);
        text = step.text;
        return likeliest(step.logits, vocabulary);
      });
    },
  };
}

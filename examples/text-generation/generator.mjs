// Text, one character at a time, from a model whose memory of the text (keys and values of all layers) stays in
// tensors: a step reads one set of tensors and writes another, and the next step swaps them.
import { loadModel } from 'webnn-node/onnx';

/** Tokens are ASCII characters. */
const isAscii = (/** @type {string} */ text) => /^[\x00-\x7f]*$/.test(text);

/**
 * Numbers from 0 to 1 that depend only on the seed (the generator mulberry32).
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
 * The place of the largest number.
 * @param {Float32Array} logits
 */
function mostLikely(logits) {
  return logits.reduce((best, value, i) => (value > logits[best] ? i : best), 0);
}

/**
 * Chooses a token: the most likely one at temperature 0, else one at random with its probability
 * softmax(logits / temperature).
 * @param {Float32Array} logits
 * @param {number} temperature
 * @param {() => number} random
 */
export function chooseToken(logits, temperature, random) {
  if (temperature === 0) return mostLikely(logits);
  const largest = logits[mostLikely(logits)];
  const weights = Array.from(logits, (value) => Math.exp((value - largest) / temperature));
  let rest = random() * weights.reduce((sum, weight) => sum + weight, 0);
  const chosen = weights.findIndex((weight) => (rest -= weight) < 0);
  return chosen === -1 ? mostLikely(logits) : chosen;
}

/**
 * The inputs for the cache. The model has no free dimensions.
 * @param {import('webnn-node/onnx').OnnxModel} model
 */
function cacheInputs(model) {
  const inputs = model.inputs.filter(({ name }) => name.startsWith('past_'));
  return /** @type {(import('webnn-node/onnx').OnnxDescriptor & { name: string })[]} */ (inputs);
}

/** Generates text with a model as `train.py` beside this file writes it. */
export class Generator {
  #model;
  /** Two sets of tensors by the names of the cache (`key_0`, `value_0`, ...): one to read and one to write. */
  #caches;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {import('webnn-node').MLNamedTensors[]} caches
   */
  constructor(model, caches) {
    this.#model = model;
    this.#caches = caches;
  }

  /**
   * Loads the model and creates the tensors: all memory that the generator will use.
   * @param {string | URL} file
   * @returns {Promise<Generator>}
   */
  static async load(file) {
    const model = await loadModel(file);
    const createCache = async () => {
      const tensors = cacheInputs(model).map(async ({ name, dataType, shape }) => [
        name.replace('past_', ''),
        await model.context.createTensor({ dataType, shape }),
      ]);
      return Object.fromEntries(await Promise.all(tensors));
    };
    return new Generator(model, [await createCache(), await createCache()]);
  }

  /** The number of characters of the longest text, the prompt included. */
  get maxLength() {
    return cacheInputs(this.#model)[0].shape[1];
  }

  /**
   * Continues a text. One text at a time: all share the tensors.
   *
   * @param {string} prompt ASCII, not empty, shorter than `maxLength`
   * @param {{ maxTokens?: number, temperature?: number, random?: () => number, stop?: string }} [options]
   *   `random` gives numbers from 0 to 1; `stop` ends the text, and is not part of it
   * @returns {AsyncGenerator<string>} the characters, each as soon as it is known
   */
  async *generate(prompt, { maxTokens = Infinity, temperature = 0, random = Math.random, stop } = {}) {
    if (prompt === '' || !isAscii(prompt) || prompt.length >= this.maxLength) {
      throw new RangeError(`a prompt has 1 to ${this.maxLength - 1} characters of ASCII, this one is ${JSON.stringify(prompt)}`);
    }
    const end = Math.min(this.maxLength, prompt.length + maxTokens);
    let token = prompt.charCodeAt(0);
    for (let position = 0; position + 1 < end; position++) {
      const logits = await this.#step(token, position);
      if (position + 1 < prompt.length) {
        token = prompt.charCodeAt(position + 1);
        continue;
      }
      token = chooseToken(logits, temperature, random);
      const character = String.fromCharCode(token);
      if (character === stop) return;
      yield character;
    }
  }

  /**
   * Runs the model on one token and swaps the caches. What a cache holds from an earlier text does no harm: the
   * model reads only rows up to `position`.
   * @param {number} token
   * @param {number} position
   * @returns {Promise<Float32Array>} the logits of the next token
   */
  async #step(token, position) {
    const [past, present] = this.#caches;
    /** @type {Record<string, import('webnn-node/onnx').OnnxFeed>} */
    const feeds = { token: BigInt64Array.of(BigInt(token)), position: BigInt64Array.of(BigInt(position)) };
    /** @type {import('webnn-node').MLNamedTensors} */
    const fetches = {};
    for (const name of Object.keys(past)) {
      feeds[`past_${name}`] = past[name];
      fetches[`present_${name}`] = present[name];
    }
    const { logits } = await this.#model.run(feeds, fetches);
    this.#caches = [present, past];
    return logits.data;
  }

  /** Gives all memory back. */
  destroy() {
    for (const tensor of this.#caches.flatMap(Object.values)) tensor.destroy();
    this.#model.destroy();
  }
}

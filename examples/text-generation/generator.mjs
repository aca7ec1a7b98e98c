// Tokens, one at a time, from a model and its cache.
import { loadModel } from 'webnn-node/onnx';
import { DecoderError, KEEP_LAST } from 'webnn-node-text/decoder';
import { FixedCache } from './fixed-cache.mjs';
import { GrowingCache } from './growing-cache.mjs';

/** A text that the model cannot read. */
export class PromptError extends Error {
  name = 'PromptError';
}

/**
 * Loads a model that computes only the logits that are looked at.
 * @param {string | URL} file
 * @param {import('webnn-node/onnx').OnnxLoadOptions} options
 */
async function loadWithLogits(file, options) {
  try {
    return await loadModel(file, { keepLast: KEEP_LAST, ...options });
  } catch (cause) {
    const { code, message } = /** @type {NodeJS.ErrnoException} */ (cause);
    if (code !== 'ERR_WEBNN_UNKNOWN_OUTPUT') throw cause;
    throw new DecoderError(`this model cannot generate text: ${message}`, { cause });
  }
}

/**
 * @param {import('webnn-node/onnx').OnnxModel} model
 * @param {number} maxLength
 */
async function cacheOf(model, maxLength) {
  try {
    return FixedCache.fits(model) ? await FixedCache.create(model) : new GrowingCache(model, maxLength);
  } catch (error) {
    model.destroy();
    throw error;
  }
}

/** Goes on with a text. The cache holds what was read and generated, until `reset()`. */
export class Generator {
  #model;
  #cache;
  /**
   * The last token of a text that did not end by itself: generated, but not in the cache yet.
   * @type {number[]}
   */
  #pending = [];

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {FixedCache | GrowingCache} cache
   */
  constructor(model, cache) {
    this.#model = model;
    this.#cache = cache;
  }

  /**
   * Loads a model with either kind of cache.
   * @param {string | URL} file
   * @param {import('webnn-node/onnx').OnnxLoadOptions & { maxLength?: number }} [options] with the number of tokens that the
   *   model can read, where its cache does not tell it
   * @returns {Promise<Generator>}
   */
  static async load(file, { maxLength = Infinity, ...options } = {}) {
    const model = await loadWithLogits(file, options);
    return new Generator(model, await cacheOf(model, maxLength));
  }

  /** The number of tokens of the longest text. */
  get maxLength() {
    return this.#cache.maxLength;
  }

  /** The number of tokens of the text so far. */
  get length() {
    return this.#cache.length + this.#pending.length;
  }

  /** Forgets the text. */
  reset() {
    this.#cache.reset();
    this.#pending = [];
  }

  /** @param {number[]} ids */
  #check(ids) {
    const { vocabulary } = this.#cache;
    const outside = ids.find((id) => !(id >= 0 && id < vocabulary));
    if (ids.length === 0) throw new PromptError('there are no tokens in this text');
    if (ids.includes(/** @type {any} */ (undefined))) throw new PromptError('the tokenizer has no token for a part of this text');
    if (outside !== undefined) {
      throw new PromptError(`token ${outside} is outside of the model's vocabulary of ${vocabulary} tokens: the tokenizer is that of another model`);
    }
    if (this.length + ids.length >= this.maxLength) {
      const before = this.length === 0 ? '' : `${this.length} tokens and `;
      throw new PromptError(`${before}${ids.length} new tokens are too long for the model: its context has ${this.maxLength}, with room for a response`);
    }
  }

  /**
   * Reads tokens and generates further ones. One text at a time: all share the cache.
   *
   * @param {number[]} ids at least one, which follow the text so far
   * @param {{ choose: (logits: ArrayLike<number>) => number, stop?: ReadonlySet<number>, maxTokens?: number, signal?: AbortSignal }} options
   *   `choose` takes the scores of all tokens; a token of `stop` ends the text, and is not part of it
   * @returns {AsyncGenerator<number>} the tokens, each as soon as it is known
   * @throws {PromptError}
   */
  async *generate(ids, { choose, stop = new Set(), maxTokens = Infinity, signal }) {
    this.#check(ids);
    let next = [...this.#pending, ...ids];
    for (let count = 0; count < maxTokens && this.#cache.length + next.length < this.maxLength; count++) {
      const logits = await this.#cache.run(next);
      this.#pending = [];
      if (signal?.aborted) return;
      const id = choose(logits);
      if (stop.has(id)) return;
      next = [id];
      this.#pending = next;
      yield id;
      if (signal?.aborted) return;
    }
  }

  /** Gives all memory back. */
  destroy() {
    this.#cache.destroy();
    this.#model.destroy();
  }
}

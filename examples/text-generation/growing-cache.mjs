// A cache that grows with the text, as models for Transformers.js have it: what a step gives as `present.N.key` is the next
// step's `past_key_values.N.key`. A result is fed back without being read, so no key or value ever reaches JavaScript.
import { describeDecoder, emptyCache, lastLogits, stepInputs } from 'webnn-node-text/decoder';
import { feedsOf } from 'webnn-node-text/elements';

/** Runs a model with inputs `input_ids` and `past_key_values.N.key`. */
export class GrowingCache {
  #model;
  #decoder;
  /** @type {import('webnn-node/onnx').OnnxFeeds} */
  #cache = {};
  /** How many tokens the cache holds. */
  length = 0;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {number} maxLength how many tokens the model can read
   * @throws {import('webnn-node-text/decoder').DecoderError} if the model has other inputs or outputs
   */
  constructor(model, maxLength) {
    this.#model = model;
    this.#decoder = describeDecoder(model);
    this.maxLength = maxLength;
    this.reset();
  }

  get vocabulary() {
    return this.#decoder.vocabulary;
  }

  /**
   * Reads tokens, all in one step.
   * @param {number[]} ids at least one
   * @returns {Promise<ArrayLike<number>>} the scores of all tokens for the place behind the last one
   */
  async run(ids) {
    const results = await this.#model.run({ ...feedsOf(stepInputs(this.#decoder, ids, this.length)), ...this.#cache });
    // All results present.N.key and present.N.value, as the inputs past_key_values.N.key and past_key_values.N.value.
    this.#cache = { past: results.present };
    this.length += ids.length;
    return lastLogits(results.logits);
  }

  /** Forgets the text. */
  reset() {
    this.#cache = feedsOf(emptyCache(this.#decoder));
    this.length = 0;
  }

  /** Lets go of the results. */
  destroy() {
    this.#cache = {};
  }
}

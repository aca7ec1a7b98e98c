// A cache of fixed size: keys and values of all layers stay in tensors. A step reads one set of tensors and writes another,
// and the next step swaps them. The model takes one token at a time.

/** @typedef {import('webnn-node').MLNamedTensors} Tensors */

/**
 * The inputs for the cache. The model has no free dimensions.
 * @param {import('webnn-node/onnx').OnnxModel} model
 */
function cacheInputs(model) {
  const inputs = model.inputs.filter(({ name }) => name.startsWith('past_'));
  return /** @type {(import('webnn-node/onnx').OnnxDescriptor & { name: string })[]} */ (inputs);
}

/** Runs a model as `train.py` beside this file writes it. */
export class FixedCache {
  #model;
  /** Two sets of tensors by the names of the cache (`key_0`, `value_0`, ...): one to read and one to write. */
  #tensors;
  /** How many tokens the cache holds. */
  length = 0;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {Tensors[]} tensors
   */
  constructor(model, tensors) {
    this.#model = model;
    this.#tensors = tensors;
    this.maxLength = cacheInputs(model)[0].shape[1];
    this.vocabulary = /** @type {number} */ (model.outputs.find(({ name }) => name === 'logits')?.shape?.at(-1));
  }

  /**
   * Whether a model has such a cache.
   * @param {import('webnn-node/onnx').OnnxModel} model
   */
  static fits({ inputs }) {
    return inputs.some(({ name }) => name === 'past_key_0');
  }

  /**
   * Creates the tensors: all memory that the steps will use.
   * @param {import('webnn-node/onnx').OnnxModel} model
   */
  static async create(model) {
    const createSet = async () => {
      const tensors = cacheInputs(model).map(async ({ name, dataType, shape }) => [
        name.replace('past_', ''),
        await model.context.createTensor({ dataType, shape }),
      ]);
      return Object.fromEntries(await Promise.all(tensors));
    };
    return new FixedCache(model, [await createSet(), await createSet()]);
  }

  /**
   * Reads tokens, one after the other.
   * @param {number[]} ids at least one
   * @returns {Promise<ArrayLike<number>>} the scores of all tokens for the place behind the last one
   */
  async run(ids) {
    /** @type {ArrayLike<number>} */
    let logits = [];
    for (const id of ids) logits = await this.#step(id);
    return logits;
  }

  /**
   * Runs the model on one token and swaps the sets.
   * @param {number} id
   * @returns {Promise<Float32Array>}
   */
  async #step(id) {
    const [past, present] = this.#tensors;
    /** @type {Record<string, import('webnn-node/onnx').OnnxFeed>} */
    const feeds = { token: BigInt64Array.of(BigInt(id)), position: BigInt64Array.of(BigInt(this.length)) };
    /** @type {Tensors} */
    const fetches = {};
    for (const name of Object.keys(past)) {
      feeds[`past_${name}`] = past[name];
      fetches[`present_${name}`] = present[name];
    }
    const { logits } = await this.#model.run(feeds, fetches);
    this.#tensors = [present, past];
    this.length += 1;
    return logits.data;
  }

  /** Forgets the text. What the tensors hold of it does no harm: the model reads only rows up to the position. */
  reset() {
    this.length = 0;
  }

  /** Gives the tensors back. */
  destroy() {
    for (const tensor of this.#tensors.flatMap(Object.values)) tensor.destroy();
  }
}

// A model that makes vectors of texts.

import { loadModel } from 'webnn-node/onnx';
import { Executor } from '../batcher/executor.js';
import { invalid, ServeError } from '../errors.js';
import { contextOptions } from '../registry/config.js';
import { encodeText } from '../text/folder.js';
import { mapInParts } from '../text/parts.js';

/**
 * @typedef {import('../text/folder.js').TextFolder} TextFolder
 * @typedef {import('../batcher/executor.js').CallOptions} CallOptions
 */

/** Inputs that the model may have: what each holds for a text of the given tokens, and for padding. @type {Record<string, (ids: readonly number[]) => (i: number) => number>} */
const INPUTS = {
  input_ids: (ids) => (i) => ids[i] ?? 0,
  attention_mask: (ids) => (i) => (i < ids.length ? 1 : 0),
  token_type_ids: () => () => 0,
  position_ids: () => (i) => i,
};

/** Outputs that are one vector for each text already. Others are states of tokens. */
const POOLED = ['sentence_embedding', 'text_embeds', 'embedding', 'embeddings', 'pooler_output'];

/** Outputs with a vector for each token. */
const STATES = ['last_hidden_state', 'token_embeddings', 'hidden_states'];

/** Texts of one request, as at OpenAI. */
const MAX_INPUTS = 2048;

/** Texts of lengths within this share of each other are computed together: what is left is padding. */
const SIMILAR = 1.25;

/**
 * The output to read.
 * @param {import('webnn-node/onnx').OnnxModel} model
 */
function outputOf({ outputs }) {
  const found = [...POOLED, ...STATES].flatMap((name) => outputs.find((output) => output.name === name) ?? [])[0];
  if (found === undefined)
    throw new ServeError('internal', `the model has no output ${[...POOLED, ...STATES].join(', ')}; it has ${outputs.map(({ name }) => name).join(', ')}`);
  return found;
}

/**
 * Makes the length of a vector 1.
 * @param {Float32Array} vector
 */
export function normalize(vector) {
  const length = Math.hypot(...vector);
  return length === 0 ? vector : vector.map((value) => value / length);
}

/** How the vectors of a text's tokens become one. @type {Record<TextFolder['pooling'], (states: Float32Array, width: number, count: number) => Float32Array>} */
const POOLINGS = {
  cls: (states, width) => states.slice(0, width),
  last: (states, width, count) => states.slice((count - 1) * width, count * width),
  // The sum has the direction of the mean.
  mean(states, width, count) {
    const sum = new Float32Array(width);
    for (let i = 0; i < count * width; i++) sum[i % width] += states[i];
    return sum;
  },
};

export class Embedder {
  kind = /** @type {const} */ ('embeddings');
  #model;
  #folder;
  #output;
  /** @type {Executor<number[][], Float32Array[]>} */
  #executor;
  #config;
  /** Requests that have begun. @type {Set<Promise<unknown>>} */
  #begun = new Set();
  #isDraining = false;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {TextFolder} folder
   * @param {import('./load.js').Services} services
   */
  constructor(model, folder, { config, turns, observer }) {
    const unknown = model.inputs.filter(({ name }) => !Object.hasOwn(INPUTS, name));
    if (unknown.length > 0) throw new ServeError('internal', `no value is known for the model's input ${unknown.map(({ name }) => name).join(', ')}`);
    this.#model = model;
    this.#folder = folder;
    this.#config = config;
    this.#output = outputOf(model);
    this.#executor = new Executor({ limits: config, turns, observer, run: (lists) => this.#run(lists) });
  }

  /**
   * Loads an encoder, and computes once, so that the first caller does not wait for it.
   * @param {string} file
   * @param {TextFolder} folder
   * @param {import('./load.js').Services} services
   */
  static async load(file, folder, services) {
    const model = await loadModel(file, contextOptions(services.config));
    try {
      const embedder = new Embedder(model, folder, services);
      await embedder.#run([[[0, 0]]]);
      return embedder;
    } catch (error) {
      model.destroy();
      throw error;
    }
  }

  /** Numbers of a vector. */
  get width() {
    const width = this.#output.shape?.at(-1);
    return typeof width === 'number' ? width : -1;
  }

  get metadata() {
    return {
      platform: 'onnx_webnn-node',
      inputs: [{ name: 'text', datatype: 'BYTES', shape: [-1] }],
      outputs: [{ name: 'embedding', datatype: 'FP32', shape: [-1, this.width] }],
    };
  }

  /** Requests that wait. */
  get waiting() {
    return this.#executor.waiting;
  }

  /**
   * Refuses a request that there is no room for, before it is read.
   * @throws {ServeError}
   */
  admit() {
    this.#executor.admit();
  }

  /**
   * The tokens of a text, or those given, checked.
   * @param {string | readonly number[]} input
   * @param {number} index in the request
   * @returns {readonly number[]}
   */
  #tokens(input, index) {
    if (typeof input === 'string') return encodeText(this.#folder, input, { what: `input ${index}`, param: 'input' });
    const { maxLength } = this.#folder;
    if (input.length <= maxLength) return input;
    throw invalid(`input ${index} has ${input.length} tokens, and the model reads at most ${maxLength} tokens`, {
      param: 'input',
      code: 'context_length_exceeded',
    });
  }

  /**
   * Vectors of length 1.
   * @param {readonly (string | readonly number[])[]} inputs texts, or their tokens
   * @param {CallOptions} [options]
   * @returns {Promise<{ vectors: Float32Array[], tokens: number }>} in the order of the inputs, and how many tokens were read
   * @throws {ServeError}
   */
  async embed(inputs, options) {
    if (this.#isDraining) throw new ServeError('unavailable', 'the model is being unloaded');
    const done = this.#embed(inputs, options);
    this.#begun.add(done);
    try {
      return await done;
    } finally {
      this.#begun.delete(done);
    }
  }

  /**
   * @param {readonly (string | readonly number[])[]} inputs
   * @param {CallOptions} [options]
   */
  async #embed(inputs, options) {
    if (inputs.length > MAX_INPUTS) throw invalid(`input has ${inputs.length} entries, at most ${MAX_INPUTS} are allowed`, { param: 'input' });
    this.#executor.admit(options);
    const rows = await mapInParts(inputs, (input, index) => ({ index, ids: this.#tokens(input, index) }));
    const vectors = new Array(rows.length);
    // One part after the other: others get their turn between them.
    for (const part of this.#parts(rows)) {
      const lists = part.map(({ ids }) => [...ids]);
      const results = await this.#executor.submit(lists, { key: 'text', rows: lists.length, length: lists[lists.length - 1].length }, options);
      part.forEach(({ index }, i) => (vectors[index] = results[i]));
    }
    return { vectors, tokens: rows.reduce((sum, { ids }) => sum + ids.length, 0) };
  }

  /**
   * Parts of similar length, no larger than a batch.
   * @template {{ ids: readonly number[] }} T
   * @param {T[]} rows
   * @returns {T[][]}
   */
  #parts(rows) {
    const sorted = [...rows].sort((a, b) => a.ids.length - b.ids.length);
    /** @type {T[][]} */
    const parts = [];
    for (const row of sorted) {
      const last = parts.at(-1);
      const fits = last !== undefined && last.length < this.#config.maxBatch && row.ids.length <= SIMILAR * last[0].ids.length;
      if (fits) last.push(row);
      else parts.push([row]);
    }
    return parts;
  }

  /**
   * Computes requests together.
   * @param {number[][][]} requests
   * @returns {Promise<Float32Array[][]>}
   */
  async #run(requests) {
    const lists = requests.flat();
    const longest = Math.max(1, ...lists.map((ids) => ids.length));
    const shape = [lists.length, longest];
    const feeds = Object.fromEntries(
      this.#model.inputs.map(({ name, dataType }) => {
        const data = dataType === 'int32' ? new Int32Array(lists.length * longest) : new BigInt64Array(lists.length * longest);
        lists.forEach((ids, row) => {
          const valueAt = INPUTS[name](ids);
          for (let i = 0; i < longest; i++) data[row * longest + i] = /** @type {never} */ (dataType === 'int32' ? valueAt(i) : BigInt(valueAt(i)));
        });
        return [name, { data, shape }];
      }),
    );
    const others = this.#model.outputs.filter(({ name }) => name !== this.#output.name);
    const results = await this.#model.run(feeds, Object.fromEntries(others.map(({ name }) => [name, null])));
    const vectors = this.#vectors(results[this.#output.name], lists);
    let first = 0;
    return requests.map(({ length }) => vectors.slice(first, (first += length)));
  }

  /**
   * @param {{ data: Float32Array, shape: number[] }} result
   * @param {number[][]} lists
   * @returns {Float32Array[]}
   */
  #vectors({ data, shape }, lists) {
    const width = shape[shape.length - 1];
    const size = data.length / lists.length;
    const pool = shape.length === 3 ? POOLINGS[this.#folder.pooling] : POOLINGS.cls;
    return lists.map((ids, row) => normalize(pool(data.subarray(row * size, (row + 1) * size), width, ids.length)));
  }

  /**
   * Vectors of texts as tensors.
   * @param {import('./tensor-model.js').InferRequest} request
   * @param {CallOptions} [options]
   * @returns {Promise<import('./tensor-model.js').InferResult>}
   */
  async infer({ inputs, outputs }, options) {
    const text = inputs.get('text');
    if (text === undefined || inputs.size > 1 || text.datatype !== 'BYTES') throw invalid('expected one input, "text", of type BYTES');
    if (outputs?.some((name) => name !== 'embedding')) throw invalid('there is one output, "embedding"');
    const texts = /** @type {Uint8Array[]} */ (text.data).map((bytes) => Buffer.from(bytes).toString());
    const { vectors } = await this.embed(texts, options);
    const width = vectors[0]?.length ?? this.width;
    const data = new Float32Array(vectors.length * width);
    vectors.forEach((vector, row) => data.set(vector, row * width));
    return new Map([['embedding', { datatype: 'FP32', shape: [...text.shape, width], data }]]);
  }

  /** Ends what waits, and takes no more. */
  async drain() {
    this.#isDraining = true;
    // A request of several parts has some that do not wait yet.
    await Promise.allSettled(this.#begun);
    await this.#executor.drain();
  }

  /** Frees the memory. */
  destroy() {
    this.#model.destroy();
  }
}

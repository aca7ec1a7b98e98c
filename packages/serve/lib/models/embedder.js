// A model that makes vectors of texts.

import { loadModel } from 'webnn-node/onnx';
import { hasCache } from 'webnn-node-text/decoder';
import { arrayOf, numbersOf } from 'webnn-node-text/elements';
import { counted, Executor } from '../batcher/executor.js';
import { invalid, ServeError } from '../errors.js';
import { loadOptions } from '../registry/config.js';
import { RepositoryError } from '../registry/repository.js';
import { encodeText } from '../text/folder.js';
import { mapInParts } from '../text/parts.js';
import { chooseOutput, planOf, pool } from './pooling.js';
import { float32Warnings } from './precision.js';

/**
 * @typedef {import('../text/folder.js').TextFolder} TextFolder
 * @typedef {import('../batcher/executor.js').CallOptions} CallOptions
 */

/** Inputs that the model may have: what each holds for a text of the given tokens, and for padding. @type {Record<string, (ids: readonly number[], padding: number) => (i: number) => number>} */
const INPUTS = {
  input_ids: (ids, padding) => (i) => ids[i] ?? padding,
  attention_mask: (ids) => (i) => (i < ids.length ? 1 : 0),
  token_type_ids: () => () => 0,
  position_ids: () => (i) => i,
};

/** Texts of one request, as at OpenAI. */
const MAX_INPUTS = 2048;

/** Texts of lengths within this share of each other are computed together: what is left is padding. */
const SIMILAR = 1.25;

/**
 * Makes the length of a vector 1.
 * @param {Float32Array} vector
 */
export function normalize(vector) {
  // Squares of single precision neither overflow in double precision nor vanish: this needs no Math.hypot(), which takes ten
  // times as long.
  let squares = 0;
  for (let i = 0; i < vector.length; i++) squares += vector[i] * vector[i];
  if (squares === 0) return vector;
  const length = Math.sqrt(squares);
  const unit = new Float32Array(vector.length);
  for (let i = 0; i < vector.length; i++) unit[i] = vector[i] / length;
  return unit;
}

/**
 * An input whose value does not depend on the texts: the empty cache of a decoder, which makes vectors as an encoder does, and
 * whether there is something in it.
 * @param {import('webnn-node/onnx').OnnxValueInfo} input
 * @returns {((rows: number) => { data: any, shape: number[] }) | null} null for others
 */
function constantOf({ name, dataType, shape }) {
  if (name === 'use_cache_branch') return () => ({ data: arrayOf(dataType, 1), shape: [1] });
  const [, heads, , size] = shape ?? [];
  if (!hasCache([{ name }]) || typeof heads !== 'number' || typeof size !== 'number') return null;
  return (rows) => ({ data: arrayOf(dataType, 0), shape: [rows, heads, 0, size] });
}

/** The result of a computation. @typedef {{ data: any, dataType: string, shape: number[] }} Result */

export class Embedder {
  kind = /** @type {const} */ ('embeddings');
  #model;
  #folder;
  #output;
  /** Outputs that are not read, which run() need not compute. @type {Record<string, null>} */
  #unread;
  #isNormal;
  /** The setting. */
  #pooling;
  /** @type {import('./pooling.js').Plan} */
  #plan = { pooling: null, isAssumed: false };
  /** Numbers of a vector. */
  width = 0;
  /** Values of inputs that no text changes. @type {Map<string, (rows: number) => { data: any, shape: number[] }>} */
  #constants = new Map();
  /** Whether the model knows what is padding. Without that, only texts of equal length are computed together. */
  #hasMask;
  /** @type {Executor<number[][], Float32Array[]>} */
  #executor;
  #limits;
  #observer;
  /** Requests that have begun. @type {Set<Promise<unknown>>} */
  #begun = new Set();
  #isDraining = false;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {TextFolder} folder
   * @param {import('./load.js').Services} services
   */
  constructor(model, folder, { config, turns, observer }) {
    for (const input of model.inputs) {
      const constant = constantOf(input);
      if (constant !== null) this.#constants.set(input.name, constant);
    }
    const unknown = model.inputs.filter(({ name }) => !Object.hasOwn(INPUTS, name) && !this.#constants.has(name));
    if (unknown.length > 0) {
      const listed = unknown.map(({ name }) => name).join(', ');
      throw new RepositoryError(`no value is known for the model's input ${listed}: set "kind" to "tensors" in model.json if callers have it`);
    }
    const { sentence } = folder;
    this.#model = model;
    this.#folder = folder;
    // Some files are exported for one text at a time.
    const isForOne = model.inputs.some(({ shape }) => shape?.[0] === 1);
    this.#limits = isForOne ? { ...config, maxBatch: 1 } : config;
    this.#observer = observer;
    this.#hasMask = model.inputs.some(({ name }) => name === 'attention_mask');
    this.#pooling = config.pooling === null || config.pooling === 'none' ? config.pooling : [config.pooling].flat();
    const needsStates = config.pooling !== 'none' && (sentence.pooling !== null || sentence.layers.length > 0);
    this.#output = chooseOutput(model.outputs, { output: config.output, pooling: this.#pooling, needsStates });
    this.#unread = Object.fromEntries(model.outputs.filter(({ name }) => name !== this.#output.name).map(({ name }) => [name, null]));
    this.#isNormal = config.normalize ?? sentence.normalize;
    this.#executor = new Executor({ limits: this.#limits, turns, observer, run: (lists) => this.#run(lists) });
  }

  /**
   * Loads an encoder, and computes once: the sizes of the result are known then, and the first caller does not wait for it.
   * @param {string} file
   * @param {TextFolder} folder
   * @param {import('./load.js').Services} services
   */
  static async load(file, folder, services) {
    const model = await loadModel(file, loadOptions(services.config));
    try {
      const embedder = new Embedder(model, folder, services);
      await embedder.#try();
      return embedder;
    } catch (error) {
      model.destroy();
      throw error;
    }
  }

  /** Computes a text of two tokens, and learns what a vector is. */
  async #try() {
    const { name } = this.#output;
    const { shape } = await this.#compute([[this.#folder.padding, this.#folder.padding]]);
    const isKnown = (shape.length === 2 || (shape.length === 3 && shape[1] === 2)) && shape[0] === 1;
    if (!isKnown) throw new RepositoryError(`the output ${name} is [${shape.join(', ')}] for a string of 2 tokens, expected [1, width] or [1, 2, width]`);
    this.#plan = planOf({ name, rank: shape.length }, this.#folder.sentence, this.#pooling);
    this.width = shape[shape.length - 1] * (this.#plan.pooling?.length ?? 1);
  }

  /** What the log says about it. */
  get about() {
    const { prompt } = this.#folder.sentence;
    return {
      output: this.#output.name,
      pooling: this.#plan.pooling?.join(', ') ?? 'none',
      normalize: this.#isNormal,
      width: this.width,
      maxLength: this.#folder.maxLength,
      ...(prompt === '' ? {} : { prompt }),
    };
  }

  /** What whoever runs the server should know. */
  get warnings() {
    const assumed = 'the folder does not say how the states of tokens become a vector: their mean is taken; set "pooling" in model.json';
    const missing = `the vectors do without ${this.#folder.sentence.layers.join(', ')}, because "pooling" is set in model.json`;
    const isPooler = this.#output.name === 'pooler_output' && this.#limits.output === null;
    return [
      ...(this.#plan.isAssumed ? [assumed] : []),
      ...(this.#plan.pooling !== null && this.#folder.sentence.layers.length > 0 ? [missing] : []),
      ...(isPooler ? ['the only vector of a text is pooler_output, which is rarely meant for comparing texts'] : []),
      ...float32Warnings(this.#model),
    ];
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
    const { maxLength, sentence, tokenizer } = this.#folder;
    if (typeof input === 'string') {
      const text = sentence.prompt + input;
      return encodeText(this.#folder, sentence.lowerCase ? text.toLowerCase() : text, { what: `input ${index}`, param: 'input' });
    }
    if (input.length > maxLength) {
      throw invalid(`input ${index} has ${input.length} tokens, and the model reads at most ${maxLength} tokens`, {
        param: 'input',
        code: 'context_length_exceeded',
      });
    }
    const unknown = input.find((id) => tokenizer.id_to_token(id) === undefined);
    if (unknown !== undefined) throw invalid(`input ${index} has the token ${unknown}, which the model's tokenizer does not have`, { param: 'input' });
    return input;
  }

  /**
   * Vectors of texts.
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
    counted(this.#observer, () => {
      if (inputs.length > MAX_INPUTS) throw invalid(`input has ${inputs.length} entries, at most ${MAX_INPUTS} are allowed`, { param: 'input' });
    });
    this.#executor.admit(options);
    const rows = await mapInParts(inputs, (input, index) => ({ index, ids: counted(this.#observer, () => this.#tokens(input, index)) }));
    const vectors = new Array(rows.length);
    // One part after the other: others get their turn between them.
    for (const part of this.#parts(rows)) {
      const lists = part.map(({ ids }) => [...ids]);
      const { length } = lists[lists.length - 1];
      const results = await this.#executor.submit(lists, { key: this.#hasMask ? 'text' : `text of ${length}`, rows: lists.length, length }, options);
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
      const fits = last !== undefined && last.length < this.#limits.maxBatch && row.ids.length <= (this.#hasMask ? SIMILAR : 1) * last[0].ids.length;
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
    const vectors = this.#vectors(await this.#compute(lists), lists);
    let first = 0;
    return requests.map(({ length }) => vectors.slice(first, (first += length)));
  }

  /**
   * @param {number[][]} lists tokens of texts, at least one
   * @returns {Promise<Result>}
   */
  async #compute(lists) {
    const longest = Math.max(1, ...lists.map((ids) => ids.length));
    const shape = [lists.length, longest];
    const feeds = Object.fromEntries(
      this.#model.inputs.map(({ name, dataType }) => {
        const constant = this.#constants.get(name);
        if (constant !== undefined) return [name, constant(lists.length)];
        const data = dataType === 'int32' ? new Int32Array(lists.length * longest) : new BigInt64Array(lists.length * longest);
        lists.forEach((ids, row) => {
          const valueAt = INPUTS[name](ids, this.#folder.padding);
          for (let i = 0; i < longest; i++) data[row * longest + i] = /** @type {never} */ (dataType === 'int32' ? valueAt(i) : BigInt(valueAt(i)));
        });
        return [name, { data, shape }];
      }),
    );
    const results = await this.#model.run(feeds, this.#unread);
    return results[this.#output.name];
  }

  /**
   * @param {Result} result
   * @param {number[][]} lists
   * @returns {Float32Array[]}
   */
  #vectors({ data, dataType, shape }, lists) {
    const numbers = /** @type {Float32Array} */ (numbersOf({ dataType, data }));
    const width = shape[shape.length - 1];
    const size = numbers.length / lists.length;
    return lists.map((ids, row) => {
      const own = numbers.subarray(row * size, (row + 1) * size);
      const vector = this.#plan.pooling === null ? Float32Array.from(own) : pool(this.#plan.pooling, own, width, ids.length);
      // Such as float16 that overflows. JSON would have null.
      if (!vector.every(Number.isFinite)) throw new ServeError('internal', 'the model computed numbers that are not finite for this string');
      return this.#isNormal ? normalize(vector) : vector;
    });
  }

  /**
   * The first numbers of a vector, for models whose vectors keep their meaning.
   * @param {Float32Array} vector
   * @param {number} dimensions
   */
  shortened(vector, dimensions) {
    if (dimensions === vector.length) return vector;
    const short = vector.slice(0, dimensions);
    return this.#isNormal ? normalize(short) : short;
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

// A model that takes and gives tensors.

import { loadModel } from 'webnn-node/onnx';
import { counted, Executor } from '../batcher/executor.js';
import { invalid, ServeError } from '../errors.js';
import { datatypeOf, datatypeOfModel } from '../protocol/datatypes.js';
import { loadOptions } from '../registry/config.js';
import { float32Names, float32Warnings } from './precision.js';

/**
 * @typedef {import('../protocol/tensors.js').Tensor} Tensor
 * @typedef {import('../protocol/tensors.js').Elements} Elements
 * @typedef {{ name: string, datatype: string, shape: number[] }} Port an input or output; -1 is a free dimension
 */

/**
 * A request for tensors: inputs by name, and the names of the outputs to answer, or null for all.
 * @typedef {{ inputs: ReadonlyMap<string, Tensor>, outputs: readonly string[] | null }} InferRequest
 */

/** @typedef {Map<string, Tensor>} InferResult by name of the output */

/**
 * @param {import('webnn-node/onnx').OnnxValueInfo} info
 * @returns {Port}
 */
function portOf({ name, type, shape }) {
  const datatype = datatypeOfModel(type);
  if (datatype === undefined) throw new ServeError('internal', `${JSON.stringify(name)} is of type ${type}, which the protocol does not have`);
  return { name, datatype: datatype.name, shape: (shape ?? []).map((size) => (typeof size === 'number' ? size : -1)) };
}

/**
 * The properties of a model that computes less precisely than its data types say; none for others.
 * @param {import('webnn-node/onnx').OnnxAsFloat32} computedAsFloat32
 */
function propertiesOf(computedAsFloat32) {
  const names = float32Names(computedAsFloat32);
  return names.length === 0 ? {} : { properties: Object.fromEntries(names.map(([what, listed]) => [`computed_as_fp32_${what}`, listed])) };
}

/**
 * The name of the dimension that is the batch: the first of each input and output, and of no other place.
 * @param {Pick<import('webnn-node/onnx').OnnxModel, 'inputs' | 'outputs'>} model
 * @returns {string | null} null if requests cannot be joined
 */
export function batchDimension({ inputs, outputs }) {
  // Dimensions without a real name have different names in `shape`.
  const name = inputs[0]?.shape?.[0];
  if (typeof name !== 'string') return null;
  const isBatch = [...inputs, ...outputs].every(({ shape }) => shape?.[0] === name && shape.lastIndexOf(name) === 0);
  return isBatch ? name : null;
}

/**
 * Joins the rows of tensors.
 * @param {Tensor[]} tensors with the same sizes but the first
 * @returns {Tensor}
 */
function concatenate(tensors) {
  const [{ datatype, shape, data }] = tensors;
  const rows = tensors.reduce((sum, tensor) => sum + tensor.shape[0], 0);
  if (Array.isArray(data)) {
    return { datatype, shape: [rows, ...shape.slice(1)], data: tensors.flatMap((tensor) => /** @type {Uint8Array[]} */ (tensor.data)) };
  }
  const parts = tensors.map((tensor) => /** @type {Elements} */ (tensor.data));
  const joined = new /** @type {any} */ (data.constructor)(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return { datatype, shape: [rows, ...shape.slice(1)], data: joined };
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * The data of an input as the model takes them.
 * @param {string} name
 * @param {Tensor} tensor
 * @throws {ServeError} for texts that are no UTF-8
 */
function fedData(name, { data }) {
  if (!Array.isArray(data)) return data;
  return data.map((text, at) => {
    try {
      return decoder.decode(text);
    } catch {
      throw invalid(`input ${JSON.stringify(name)}: string ${at} is not UTF-8`);
    }
  });
}

/**
 * Zeros, or empty texts.
 * @param {string} name of a data type
 * @param {readonly number[]} shape
 */
function zerosOf(name, shape) {
  const { array, bytes } = /** @type {import('../protocol/datatypes.js').Datatype} */ (datatypeOf(name));
  const count = shape.reduce((a, b) => a * b, 1);
  return bytes === 0 ? Array.from({ length: count }, () => new Uint8Array(0)) : new array(new ArrayBuffer(bytes * count));
}

export class TensorModel {
  kind = /** @type {const} */ ('tensors');
  #model;
  #turns;
  #observer;
  #batch;
  /** @type {Executor<InferRequest, InferResult>} */
  #executor;
  /** @type {Map<string, Port>} */
  #inputs;
  /** Inputs that requests may have. @type {Map<string, Port>} */
  #optional;
  /** Inputs for which the model does not say how many dimensions they have. @type {Set<string>} */
  #unranked;
  /** @type {Map<string, Port>} */
  #outputs;
  /** Outputs of the file that no answer can have. @type {import('webnn-node/onnx').OnnxValueInfo[]} */
  #leftOut = [];

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {import('./load.js').Services} services
   */
  constructor(model, { config, turns, observer }) {
    this.#model = model;
    this.#observer = observer;
    this.#turns = turns;
    const batch = batchDimension(model);
    // A dimension whose size is set does not grow.
    this.#batch = batch !== null && Object.hasOwn(config.freeDimensions, batch) ? null : batch;
    this.#inputs = new Map(model.inputs.map((info) => [info.name, portOf(info)]));
    // Those of types that the protocol does not have keep their defaults.
    const optional = model.optionalInputs.filter(({ type }) => datatypeOfModel(type) !== undefined);
    this.#optional = new Map(optional.map((info) => [info.name, portOf(info)]));
    this.#unranked = new Set([...model.inputs, ...optional].flatMap(({ name, shape }) => (shape === null ? [name] : [])));
    this.#outputs = new Map(model.outputs.map((info) => [info.name, portOf(info)]));
    this.#executor = new Executor({ limits: config, turns, observer, run: (requests) => this.#run(requests) });
  }

  /**
   * @param {string} file
   * @param {import('./load.js').Services} services
   */
  static async load(file, services) {
    const { config } = services;
    const load = (/** @type {string[]} */ ...outputs) =>
      loadModel(file, { ...loadOptions(config), freeDimensions: config.freeDimensions, ...(outputs.length > 0 && { outputs }) });
    let model = await load();
    const leftOut = model.outputs.filter(({ type }) => datatypeOfModel(type) === undefined);
    if (leftOut.length > 0 && leftOut.length < model.outputs.length) {
      const names = model.outputs.filter((output) => !leftOut.includes(output)).map(({ name }) => name);
      model.destroy();
      model = await load(...names);
    }
    try {
      const served = new TensorModel(model, services);
      served.#leftOut = leftOut;
      await served.#warm();
      return served;
    } catch (error) {
      model.destroy();
      throw error;
    }
  }

  /**
   * Computes zeros where the sizes are known: then the first caller does not wait for what happens only once, and the server
   * knows how long a computation is.
   */
  async #warm() {
    const ports = [...this.#inputs.values()].map((port) => ({ ...port, shape: this.#batch === null ? port.shape : [1, ...port.shape.slice(1)] }));
    if (this.#unranked.size > 0 || ports.some(({ shape }) => shape.includes(-1))) return;
    const inputs = ports.map(({ name, datatype, shape }) => /** @type {const} */ ([name, { datatype, shape, data: zerosOf(datatype, shape) }]));
    const run = () => this.#run([{ inputs: new Map(inputs), outputs: null }]);
    // The first time has all that happens once, and does not count.
    await run();
    await this.#turns.take(run);
  }

  get metadata() {
    const [inputs, outputs] = [[...this.#inputs.values()], [...this.#outputs.values()]];
    return { platform: 'onnx_webnn-node', inputs, outputs, ...propertiesOf(this.#model.computedAsFloat32) };
  }

  /** What the log says about it. */
  get about() {
    return {};
  }

  /** What whoever runs the server should know. */
  get warnings() {
    const leftOut = this.#leftOut.map(({ name, type }) => `output ${JSON.stringify(name)} is left out: the protocol has nothing like ${type}`);
    return [...float32Warnings(this.#model), ...leftOut];
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
   * @param {InferRequest} request
   * @param {import('../batcher/executor.js').CallOptions} [options]
   * @returns {Promise<InferResult>}
   * @throws {ServeError}
   */
  async infer(request, options) {
    counted(this.#observer, () => this.#check(request));
    const { inputs, outputs } = request;
    const sizes = [...inputs.values()].map(({ shape }) => shape.slice(this.#batch === null ? 0 : 1).join());
    const rows = this.#batch === null ? 1 : (this.#rowed(inputs)[0]?.shape[0] ?? 1);
    const isAlone = this.#batch === null || rows === 0 || [...inputs.keys()].some((name) => this.#optional.has(name));
    // An empty batch is computed alone, and what cannot be joined has a key of its own.
    const key = isAlone ? `alone ${(this.#alone += 1)}` : `${[...inputs.keys()].join()} ${sizes.join(';')} ${outputs?.join() ?? ''}`;
    return this.#executor.submit(request, { key, rows: Math.max(1, rows) }, options);
  }

  #alone = 0;

  /**
   * The inputs that have the rows of a batch.
   * @param {InferRequest['inputs']} inputs
   */
  #rowed(inputs) {
    return [...inputs].filter(([name]) => this.#inputs.has(name)).map(([, tensor]) => tensor);
  }

  /**
   * Checks a request as far as joining relies on it; the model checks the rest.
   * @param {InferRequest} request
   */
  #check({ inputs, outputs }) {
    for (const [name, tensor] of inputs) {
      const { datatype, shape } = tensor;
      const port = this.#inputs.get(name) ?? this.#optional.get(name);
      if (port === undefined) throw invalid(`there is no input ${JSON.stringify(name)}; the model has ${[...this.#inputs.keys()].join(', ')}`);
      if (port.datatype !== datatype) throw invalid(`input ${JSON.stringify(name)} is ${datatype}, expected ${port.datatype}`);
      const fits = this.#unranked.has(name) || (shape.length === port.shape.length && shape.every((size, i) => port.shape[i] === -1 || port.shape[i] === size));
      if (!fits) throw invalid(`input ${JSON.stringify(name)} is [${shape.join(', ')}], expected [${port.shape.join(', ')}]`);
      // Before it is joined with others, which would fail with it.
      fedData(name, tensor);
    }
    const missing = [...this.#inputs.keys()].filter((name) => !inputs.has(name));
    if (missing.length > 0) throw invalid(`the request lacks the input ${missing.join(', ')}`);
    const unknown = outputs?.find((name) => !this.#outputs.has(name));
    if (unknown !== undefined) throw invalid(`there is no output ${JSON.stringify(unknown)}; the model has ${[...this.#outputs.keys()].join(', ')}`);
    const rows = new Set(this.#rowed(inputs).map(({ shape }) => shape[0]));
    if (this.#batch !== null && rows.size > 1) throw invalid(`the inputs have different numbers of rows: ${[...rows].join(', ')}`);
  }

  /**
   * Computes requests together.
   * @param {InferRequest[]} requests
   * @returns {Promise<InferResult[]>}
   */
  async #run(requests) {
    const [{ inputs, outputs }] = requests;
    const tensors = [...inputs.keys()].map((name) => {
      const parts = requests.map((request) => /** @type {Tensor} */ (request.inputs.get(name)));
      return /** @type {const} */ ([name, parts.length === 1 ? parts[0] : concatenate(parts)]);
    });
    const feeds = Object.fromEntries(
      tensors.map(([name, tensor]) => [
        name,
        { data: /** @type {any} */ (fedData(name, tensor)), shape: tensor.shape, dataType: /** @type {any} */ (datatypeOf(tensor.datatype)?.webnn) },
      ]),
    );
    const fetches = outputs === null ? {} : Object.fromEntries([...this.#outputs.keys()].filter((name) => !outputs.includes(name)).map((name) => [name, null]));
    const results = await this.#model.run(feeds, fetches);
    const named = Object.entries(results).map(([name, { data, shape }]) => /** @type {const} */ ([name, this.#tensor(name, data, shape)]));
    if (requests.length === 1) return [new Map(named)];
    return this.#split(named, requests);
  }

  /**
   * @param {string} name of an output
   * @param {any} data
   * @param {number[]} shape
   * @returns {Tensor}
   */
  #tensor(name, data, shape) {
    const { datatype } = /** @type {Port} */ (this.#outputs.get(name));
    if (datatype === 'BYTES') return { datatype, shape, data: data.map((/** @type {string} */ text) => Buffer.from(text)) };
    const bits = datatype === 'FP16' && !(data instanceof Uint16Array) ? new Uint16Array(data.buffer, data.byteOffset, data.length) : data;
    return { datatype, shape, data: bits };
  }

  /**
   * Gives each request its rows.
   * @param {(readonly [string, Tensor])[]} named
   * @param {InferRequest[]} requests
   */
  #split(named, requests) {
    const rowsOf = (/** @type {InferRequest} */ { inputs }) => /** @type {Tensor} */ (inputs.values().next().value).shape[0];
    const total = requests.reduce((sum, request) => sum + rowsOf(request), 0);
    const wrong = named.find(([, { shape }]) => shape[0] !== total);
    if (wrong !== undefined) throw new Error(`${wrong[0]} has ${wrong[1].shape[0]} rows for a batch of ${total}: set maxBatch to 1 in model.json`);
    let first = 0;
    return requests.map((request) => {
      const rows = rowsOf(request);
      const slices = named.map(([name, { datatype, shape, data }]) => {
        const size = data.length / total;
        const [start, end] = [first * size, (first + rows) * size];
        const part = Array.isArray(data) ? data.slice(start, end) : data.subarray(start, end);
        return /** @type {const} */ ([name, { datatype, shape: [rows, ...shape.slice(1)], data: part }]);
      });
      first += rows;
      return new Map(slices);
    });
  }

  /** Ends what waits, and takes no more. */
  drain() {
    return this.#executor.drain();
  }

  /** Frees the memory. */
  destroy() {
    this.#model.destroy();
  }
}

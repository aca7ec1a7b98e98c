// The Open Inference Protocol over REST: requests and answers as JSON, with the tensors inside or as raw bytes behind the
// JSON ("binary tensor data extension").

import { amount, invalid, shown } from '../errors.js';
import { checkParameters } from './parameters.js';
import { bytesOfElements, checkTexts, elementsFromBytes, elementsOf, knownDatatype, MAX_RANK } from './tensors.js';

/** Header with the length of the JSON before raw bytes. */
export const HEAD_LENGTH = 'inference-header-content-length';

/**
 * @typedef {import('./tensors.js').Tensor} Tensor
 * @typedef {import('./datatypes.js').Datatype} Datatype
 */

/**
 * A request as a model takes it, and how to answer.
 * @typedef {object} DecodedRequest
 * @property {string | undefined} id
 * @property {import('../models/tensor-model.js').InferRequest} request
 * @property {Map<string, boolean> | null} forms whether each wanted output is answered as raw bytes; null for all outputs
 * @property {boolean} isBinary the same where `forms` is null
 * @property {number | undefined} timeoutMs that the caller will wait
 */

/**
 * Parses JSON.
 * @param {string} text
 * @returns {any}
 */
export function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw invalid(`the body is not JSON: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

const isObject = (/** @type {unknown} */ value) => value !== null && typeof value === 'object' && !Array.isArray(value);

/**
 * The elements of nested or flat lists.
 * @param {unknown} data
 * @param {number} count
 * @param {string} what
 * @returns {any[]}
 */
function flatten(data, count, what) {
  if (!Array.isArray(data)) throw invalid(`${what}: its data are not a list`);
  // Deeper lists than tensors have would overflow the stack.
  const flat = data.some(Array.isArray) ? data.flat(MAX_RANK) : data;
  if (flat.length !== count) throw invalid(`${what}: its shape has ${amount(count, 'element')}, its data ${flat.length}`);
  return flat;
}

/** Integers that JSON's numbers do not round. */
const isExact = (/** @type {unknown} */ value) => Number.isSafeInteger(value);

/**
 * How to check and convert an element of each form.
 * @type {Record<string, (value: any, datatype: Datatype) => any>} undefined for what is none
 */
const CONVERSIONS = {
  float: (value) => (typeof value === 'number' ? value : undefined),
  integer: (value, { range: [lowest, highest] = [0, 0] }) => (Number.isInteger(value) && value >= lowest && value <= highest ? value : undefined),
  big: (value, { range: [lowest, highest] = [0, 0] }) => (isExact(value) && value >= lowest && value <= highest ? BigInt(value) : undefined),
  bool: (value) => (value === true || value === 1 ? 1 : value === false || value === 0 ? 0 : undefined),
  text: (value) => (typeof value === 'string' ? Buffer.from(value) : undefined),
};

/**
 * The elements of JSON's values.
 * @param {any[]} values
 * @param {Datatype} datatype
 * @param {string} what
 */
function elementsFromJson(values, datatype, what) {
  if (datatype.json === 'raw') throw invalid(`${what}: JSON has no numbers of type ${datatype.name}; send raw bytes`);
  if (datatype.json === 'text') checkTexts(values.length, what);
  const convert = CONVERSIONS[datatype.json];
  const elements = datatype.json === 'text' ? [] : new datatype.array(new ArrayBuffer(values.length * datatype.bytes));
  for (let i = 0; i < values.length; i++) {
    const element = convert(values[i], datatype);
    if (element === undefined) {
      const hint = datatype.json === 'big' && Number.isInteger(values[i]) ? '; JSON rounds numbers beyond 2^53: send raw bytes' : '';
      throw invalid(`${what}: element ${i} is ${shown(values[i])}, expected a value of type ${datatype.name}${hint}`);
    }
    elements[i] = element;
  }
  return elements;
}

/** Deals out the raw bytes behind the JSON in the order of the inputs. */
class Pieces {
  #bytes;
  #at = 0;

  /** @param {Buffer} bytes */
  constructor(bytes) {
    this.#bytes = bytes;
  }

  /**
   * @param {unknown} size
   * @param {string} what
   */
  take(size, what) {
    const left = this.#bytes.length - this.#at;
    if (!Number.isSafeInteger(size) || /** @type {number} */ (size) < 0 || /** @type {number} */ (size) > left) {
      throw invalid(`${what}: binary_data_size is ${shown(size)}, expected 0 to ${left}, the bytes that are left after the JSON`);
    }
    this.#at += /** @type {number} */ (size);
    return this.#bytes.subarray(this.#at - /** @type {number} */ (size), this.#at);
  }

  end() {
    if (this.#at !== this.#bytes.length) throw invalid(`${amount(this.#bytes.length - this.#at, 'byte')} after the JSON, which no input expects`);
  }
}

/**
 * @param {any} input
 * @param {Pieces} pieces
 * @returns {[name: string, tensor: Tensor]}
 */
function decodeInput(input, pieces) {
  if (!isObject(input) || typeof input.name !== 'string') throw invalid('each input must be an object with a name, shape, datatype and data');
  const { name, shape, parameters } = input;
  const what = `input ${JSON.stringify(name)}`;
  checkParameters(parameters, 'tensor', what);
  const datatype = knownDatatype(input.datatype, what);
  const count = elementsOf(shape, what);
  const size = parameters?.binary_data_size ?? undefined;
  if (size !== undefined && (input.data ?? undefined) !== undefined) throw invalid(`${what} has data and binary_data_size; send one of them`);
  const data =
    size === undefined ? elementsFromJson(flatten(input.data, count, what), datatype, what) : elementsFromBytes(pieces.take(size, what), datatype, count, what);
  return [name, { datatype: datatype.name, shape, data }];
}

/**
 * Outputs that are wanted, with the form of each.
 * @param {any} outputs
 * @param {boolean} isBinary what is answered where an output does not say it
 */
function decodeOutputs(outputs, isBinary) {
  if (outputs === undefined || outputs === null) return null;
  if (!Array.isArray(outputs)) throw invalid('outputs is not a list');
  const entries = outputs.map((output) => {
    if (!isObject(output) || typeof output.name !== 'string') throw invalid('each output must be an object with a name');
    checkParameters(output.parameters, 'tensor', `output ${JSON.stringify(output.name)}`);
    return /** @type {const} */ ([output.name, (output.parameters?.binary_data ?? isBinary) === true]);
  });
  return entries.length === 0 ? null : new Map(entries);
}

/**
 * Reads a request.
 * @param {Buffer} body
 * @param {string | undefined} headLength the header {@link HEAD_LENGTH}
 * @returns {DecodedRequest}
 * @throws {import('../errors.js').ServeError}
 */
export function decodeRequest(body, headLength) {
  const length = headLength === undefined ? body.length : Number(headLength);
  if (!/^\d+$/.test(headLength ?? '0') || length > body.length) {
    throw invalid(`Inference-Header-Content-Length is ${JSON.stringify(headLength)}, and the body has ${amount(body.length, 'byte')}`);
  }
  const json = parseJson(body.toString('utf8', 0, length));
  if (!isObject(json) || !Array.isArray(json.inputs)) throw invalid('the request is not an object with a list of inputs');
  const id = json.id ?? undefined;
  const parameters = json.parameters ?? {};
  if (id !== undefined && typeof id !== 'string') throw invalid('id is not a string');
  if (!isObject(parameters)) throw invalid('parameters is not an object');
  checkParameters(parameters, 'request', 'the request');
  const pieces = new Pieces(body.subarray(length));
  const inputs = new Map();
  for (const input of json.inputs) {
    const [name, tensor] = decodeInput(input, pieces);
    if (inputs.has(name)) throw invalid(`input ${JSON.stringify(name)} is given twice`);
    inputs.set(name, tensor);
  }
  pieces.end();
  const isBinary = parameters.binary_data_output === true;
  const forms = decodeOutputs(json.outputs, isBinary);
  return { id, request: { inputs, outputs: forms === null ? null : [...forms.keys()] }, forms, isBinary, timeoutMs: timeoutOf(parameters) };
}

/**
 * How long the caller waits: `timeout` in microseconds, as Triton has it.
 * @param {Record<string, unknown>} parameters
 */
export function timeoutOf({ timeout }) {
  if (timeout === undefined || timeout === null) return undefined;
  if (typeof timeout !== 'number' || !(timeout >= 0)) throw invalid('the parameter timeout is not a number of microseconds');
  return timeout === 0 ? undefined : timeout / 1000;
}

/**
 * The elements of a tensor as JSON's values.
 * @param {string} name
 * @param {Pick<Tensor, 'data'>} tensor
 * @param {Datatype} datatype
 */
function jsonOf(name, { data }, { name: type, json }) {
  const what = `output ${JSON.stringify(name)}`;
  if (json === 'raw') throw invalid(`${what}: JSON has no numbers of type ${type}; ask for raw bytes with binary_data`);
  if (json === 'text') return /** @type {Uint8Array[]} */ (data).map((text) => Buffer.from(text).toString());
  const numbers = json === 'big' ? Array.from(/** @type {BigInt64Array} */ (data), Number) : Array.from(/** @type {Float32Array} */ (data));
  const wrong = numbers.find((value) => (json === 'big' ? !isExact(value) : !Number.isFinite(value)));
  if (wrong !== undefined) throw invalid(`${what}: JSON cannot write ${wrong} of type ${type}; ask for raw bytes with binary_data`);
  return json === 'bool' ? numbers.map((value) => value !== 0) : numbers;
}

/**
 * An output in the head of an answer: with its data, or with the number of its bytes behind the head.
 * @typedef {{ name: string, datatype: string, shape: readonly number[], data?: Tensor['data'], parameters?: { binary_data_size: number } }} OutputHead
 */

/**
 * Deals out the outputs of a model to the JSON of an answer and the raw bytes behind it.
 * @param {Pick<DecodedRequest, 'forms' | 'isBinary'>} decoded
 * @param {import('../models/tensor-model.js').InferResult} result
 * @returns {{ outputs: OutputHead[], raw: Buffer[], elements: number }} with the number of elements that JSON has to write
 */
export function splitResult({ forms, isBinary }, result) {
  /** @type {Buffer[]} */
  const raw = [];
  let elements = 0;
  const outputs = [...result].map(([name, tensor]) => {
    const { datatype, shape, data } = tensor;
    if (forms === null ? isBinary : forms.get(name)) {
      const bytes = bytesOfElements(tensor);
      raw.push(bytes);
      return { name, datatype, shape, parameters: { binary_data_size: bytes.length } };
    }
    elements += data.length;
    return { name, datatype, shape, data };
  });
  return { outputs, raw, elements };
}

/**
 * Writes the JSON of an answer.
 * @param {{ name: string, version: string }} model
 * @param {string | undefined} id
 * @param {OutputHead[]} outputs
 * @returns {string}
 * @throws {import('../errors.js').ServeError} if JSON cannot write an element
 */
export function writeHead({ name, version }, id, outputs) {
  const written = outputs.map((output) => {
    const { name, datatype, data } = output;
    return data === undefined ? output : { ...output, data: jsonOf(name, { data }, knownDatatype(datatype, name)) };
  });
  return JSON.stringify({ model_name: name, model_version: version, ...(id === undefined ? {} : { id }), outputs: written });
}

/**
 * Puts an answer together.
 * @param {string | Buffer} head
 * @param {Buffer[]} raw
 * @returns {{ body: Buffer | string, headLength: number | null }} the length of the JSON if raw bytes follow
 */
export function joinAnswer(head, raw) {
  if (raw.length === 0) return { body: head, headLength: null };
  const json = Buffer.from(head);
  return { body: Buffer.concat([json, ...raw]), headLength: json.length };
}

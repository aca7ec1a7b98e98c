// The Open Inference Protocol over gRPC: messages as protobuf has them, and requests and answers of models. 64-bit integers
// are texts in these messages: numbers would be rounded.

import { invalid } from '../errors.js';
import { bytesOfElements, elementsFromBytes, elementsOf, knownDatatype } from './tensors.js';
import { timeoutOf } from './v2-json.js';

/** The field of contents for each type that is not sent as raw bytes. @type {Record<string, string>} */
const FIELDS = {
  BOOL: 'bool_contents',
  INT8: 'int_contents',
  INT16: 'int_contents',
  INT32: 'int_contents',
  INT64: 'int64_contents',
  UINT8: 'uint_contents',
  UINT16: 'uint_contents',
  UINT32: 'uint_contents',
  UINT64: 'uint64_contents',
  FP32: 'fp32_contents',
  FP64: 'fp64_contents',
  BYTES: 'bytes_contents',
};

/**
 * @param {any} contents
 * @param {import('./datatypes.js').Datatype} datatype
 * @param {number} count
 * @param {string} what
 */
function elementsFromContents(contents, { name, json, array, bytes, range }, count, what) {
  const field = FIELDS[name];
  if (field === undefined) throw invalid(`${what}: ${name} has no contents; send raw_input_contents`);
  const values = contents?.[field] ?? [];
  if (values.length !== count) throw invalid(`${what}: its shape has ${count} elements, ${field} ${values.length}`);
  if (json === 'text') return values;
  const elements = new array(new ArrayBuffer(count * bytes));
  for (let i = 0; i < count; i++) {
    if (json === 'integer' && range !== undefined && (values[i] < range[0] || values[i] > range[1])) {
      throw invalid(`${what}: element ${i} is ${values[i]}, which is no ${name}`);
    }
    elements[i] = /** @type {never} */ (json === 'big' ? BigInt(values[i]) : Number(values[i]));
  }
  return elements;
}

/**
 * @param {any} message ModelInferRequest
 * @returns {{ request: import('../models/tensor-model.js').InferRequest, timeoutMs: number | undefined }}
 * @throws {import('../errors.js').ServeError}
 */
export function decodeInfer({ inputs: given, outputs, raw_input_contents: raw, parameters }) {
  if (raw.length > 0 && raw.length !== given.length) throw invalid(`raw_input_contents has ${raw.length} entries for ${given.length} inputs`);
  const inputs = new Map();
  given.forEach((/** @type {any} */ { name, datatype: type, shape, contents }, /** @type {number} */ i) => {
    const what = `input ${JSON.stringify(name)}`;
    if (inputs.has(name)) throw invalid(`${what} is given twice`);
    const datatype = knownDatatype(type, what);
    const sizes = shape.map(Number);
    const count = elementsOf(sizes, what);
    const data = raw.length > 0 ? elementsFromBytes(raw[i], datatype, count, what) : elementsFromContents(contents, datatype, count, what);
    inputs.set(name, { datatype: type, shape: sizes, data });
  });
  const names = outputs.map((/** @type {{ name: string }} */ { name }) => name);
  const { timeout } = parameters;
  return {
    request: { inputs, outputs: names.length === 0 ? null : names },
    timeoutMs: timeoutOf({ timeout: timeout === undefined ? undefined : Number(timeout.int64_param ?? timeout.uint64_param ?? timeout.double_param) }),
  };
}

/**
 * @param {{ name: string, version: string }} model
 * @param {string} id of the request
 * @param {import('../models/tensor-model.js').InferResult} result
 */
export function encodeInfer({ name, version }, id, result) {
  const tensors = [...result];
  return {
    model_name: name,
    model_version: version,
    id,
    outputs: tensors.map(([output, { datatype, shape }]) => ({ name: output, datatype, shape })),
    raw_output_contents: tensors.map(([, tensor]) => bytesOfElements(tensor)),
  };
}

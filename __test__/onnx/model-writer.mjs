// Writes small ONNX models for tests.

import protobuf from 'protobufjs';

const { root } = protobuf.parse(
  `
  syntax = "proto3";
  message Entry { string key = 1; string value = 2; }
  message Tensor {
    repeated int64 dims = 1; int32 data_type = 2; repeated bytes string_data = 6; string name = 8; bytes raw_data = 9;
    repeated Entry external_data = 13; int32 data_location = 14;
  }
  message SparseTensor { Tensor values = 1; Tensor indices = 2; repeated int64 dims = 3; }
  message Attribute {
    string name = 1; float f = 2; int64 i = 3; bytes s = 4; Tensor t = 5; Graph g = 6;
    repeated float floats = 7; repeated int64 ints = 8; repeated bytes strings = 9; int32 type = 20;
  }
  message Node {
    repeated string input = 1; repeated string output = 2; string name = 3; string op_type = 4;
    repeated Attribute attribute = 5; string domain = 7;
  }
  message Dimension { oneof value { int64 dim_value = 1; string dim_param = 2; } }
  message Shape { repeated Dimension dim = 1; }
  message TensorType { int32 elem_type = 1; Shape shape = 2; }
  message ListType { Type elem_type = 1; }
  message Type { TensorType tensor_type = 1; ListType sequence_type = 4; ListType optional_type = 9; }
  message ValueInfo { string name = 1; Type type = 2; }
  message Graph {
    repeated Node node = 1; string name = 2; repeated Tensor initializer = 5;
    repeated ValueInfo input = 11; repeated ValueInfo output = 12; repeated SparseTensor sparse_initializer = 15;
  }
  message OperatorSet { string domain = 1; int64 version = 2; }
  message Model {
    int64 ir_version = 1; string producer_name = 2; string producer_version = 3; string domain = 4;
    int64 model_version = 5; string doc_string = 6; Graph graph = 7; repeated OperatorSet opset_import = 8;
    repeated Entry metadata_props = 14;
  }
`,
  { keepCase: true },
);

const [Model, Graph, Tensor] = ['Model', 'Graph', 'Tensor'].map((name) => root.lookupType(name));

export const FLOAT = 1;
export const UINT8 = 2;
export const INT8 = 3;
export const UINT16 = 4;
export const INT16 = 5;
export const INT32 = 6;
export const INT64 = 7;
export const STRING = 8;
export const BOOL = 9;
export const FLOAT16 = 10;
export const DOUBLE = 11;
export const UINT32 = 12;
export const UINT4 = 21;
export const INT4 = 22;

const bytes = (/** @type {ArrayBufferView} */ view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
const dimension = (/** @type {number | string | undefined} */ dim) =>
  typeof dim === 'number' ? { dim_value: dim } : dim === undefined ? {} : { dim_param: dim };

/**
 * An input or output; dimensions are sizes, names, or undefined.
 *
 * @param {string} name
 * @param {number} elementType
 * @param {(number | string | undefined)[]} [shape]
 */
export const value = (name, elementType, shape) => ({
  name,
  type: { tensor_type: { elem_type: elementType, shape: shape && { dim: shape.map(dimension) } } },
});

/**
 * An input or output that is a list of tensors.
 *
 * @param {string} name
 * @param {number} elementType
 */
export const sequenceValue = (name, elementType) => ({
  name,
  type: { sequence_type: { elem_type: { tensor_type: { elem_type: elementType } } } },
});

/**
 * An input or output that may be nothing at all, of any type.
 *
 * @param {ReturnType<typeof value> | ReturnType<typeof sequenceValue>} info
 */
export const optionalValue = ({ name, type }) => ({ name, type: { optional_type: { elem_type: type } } });

/**
 * AttributeProto.AttributeType by the field that holds the value.
 *
 * @type {Record<string, number>}
 */
const ATTRIBUTE_TYPES = { f: 1, i: 2, s: 3, t: 4, g: 5, floats: 6, ints: 7, strings: 8 };

/**
 * A node; attributes are fields of AttributeProto by name: `{axis: {i: 1}}`.
 *
 * @param {string} operator
 * @param {string[]} input
 * @param {string[]} output
 * @param {Record<string, object>} [attributes]
 * @param {string} [name]
 */
export const node = (operator, input, output, attributes = {}, name = '') => {
  const [, domain, type] = /** @type {RegExpExecArray} */ (/^(?:(.*)\.)?([^.]+)$/.exec(operator));
  const attribute = Object.entries(attributes).map(([key, fields]) => {
    const [field] = Object.keys(fields);
    return { name: key, type: ATTRIBUTE_TYPES[field], ...fields };
  });
  return { op_type: type, domain: domain ?? '', input, output, attribute, name };
};

const ELEMENT_TYPES = new Map(
  /** @type {[Function, number][]} */ ([
    [Float32Array, FLOAT],
    [Int8Array, INT8],
    [Uint8Array, UINT8],
    [Int32Array, INT32],
    [Uint32Array, UINT32],
    [BigInt64Array, INT64],
  ]),
);

/**
 * A weight; its type follows from that of the array unless it is given.
 *
 * @param {string} name
 * @param {number[]} dims
 * @param {ArrayBufferView} data
 * @param {number} [elementType]
 */
export const weight = (name, dims, data, elementType = ELEMENT_TYPES.get(data.constructor)) => ({
  name,
  dims,
  data_type: elementType,
  raw_data: bytes(data),
});

/**
 * A weight of strings.
 *
 * @param {string} name
 * @param {number[]} dims
 * @param {(string | Uint8Array)[]} texts or their bytes
 */
export const textWeight = (name, dims, texts) => ({
  name,
  dims,
  data_type: STRING,
  string_data: texts.map((text) => (typeof text === 'string' ? new TextEncoder().encode(text) : text)),
});

/**
 * A weight whose elements are in another file.
 *
 * @param {string} name
 * @param {number[]} dims
 * @param {string} location
 * @param {number} offset in bytes
 * @param {number} length in bytes
 */
export const externalWeight = (name, dims, location, offset, length) => ({
  name,
  dims,
  data_type: FLOAT,
  data_location: 1,
  external_data: Object.entries({ location, offset, length }).map(([key, text]) => ({ key, value: String(text) })),
});

/**
 * @param {protobuf.Type} type
 * @param {object} fields
 */
const encode = (type, fields) => type.encode(type.fromObject(fields)).finish();

/** What precedes the bytes of a field. @param {protobuf.Type} type @param {string} name @param {number} length */
const head = (type, name, length) => {
  const lengthDelimited = 2;
  return protobuf.Writer.create()
    .uint32((type.fields[name].id << 3) | lengthDelimited)
    .uint32(length)
    .finish();
};

/** @param {number} opset @param {{ domain?: string }[]} [nodes] */
const opsets = (opset, nodes = []) => [
  { domain: '', version: opset },
  { domain: 'com.microsoft', version: 1 },
  ...(nodes.some(({ domain }) => domain === 'ai.onnx.ml') ? [{ domain: 'ai.onnx.ml', version: 3 }] : []),
];

/**
 * The bytes of a model file.
 *
 * @param {{ inputs?: object[], outputs?: object[], nodes?: object[], weights?: object[], sparse?: object[], opset?: number, [field: string]: unknown }} model
 *   with other fields of ModelProto
 */
export function writeModel({ inputs = [], outputs = [], nodes = [], weights = [], sparse = [], opset = 17, ...fields }) {
  const graph = { name: 'test', node: nodes, initializer: weights, sparse_initializer: sparse, input: inputs, output: outputs };
  return encode(Model, { ir_version: 8, graph, opset_import: opsets(opset, nodes), ...fields });
}

/**
 * Yields the bytes of a model file in parts, for models that are too large to be held twice.
 *
 * @param {{ inputs: object[], outputs: object[], nodes: object[], weights: { name: string, dims: number[], data_type: number, byteLength: number,
 *   read: () => Uint8Array }[], opset?: number }} model `read` returns the elements of a weight, and is called when their turn comes
 */
export function* modelParts({ inputs, outputs, nodes, weights, opset = 17 }) {
  const tensors = weights.map(({ byteLength, read, ...fields }) => {
    const start = Buffer.concat([encode(Tensor, fields), head(Tensor, 'raw_data', byteLength)]);
    return { start: Buffer.concat([head(Graph, 'initializer', start.length + byteLength), start]), byteLength, read };
  });
  const first = encode(Graph, { name: 'model', node: nodes });
  const last = encode(Graph, { input: inputs, output: outputs });
  const length = tensors.reduce((sum, { start, byteLength }) => sum + start.length + byteLength, first.length + last.length);
  // OpenVINO tells ONNX from other formats by the first three fields, which have to be different ones.
  yield encode(Model, { ir_version: 8, producer_name: 'webnn-node' });
  yield head(Model, 'graph', length);
  yield first;
  for (const { start, read } of tensors) {
    yield start;
    yield read();
  }
  yield last;
  yield encode(Model, { opset_import: opsets(opset) });
}

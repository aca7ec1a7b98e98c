// The Open Inference Protocol over gRPC: messages as protobuf has them, and requests and answers of models.
//
// Requests are read here rather than by the library, which makes an object of each number: 64 MiB of them would be gigabytes. Nothing is
// made whose number the message alone decides: entries, fields and sizes have limits, and numbers go straight into the array that the
// tensor's shape asks for.

import { create, toBinary } from '@bufbuild/protobuf';
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { amount, invalid } from '../errors.js';
import { ModelInferResponseSchema } from '../grpc/gen/inference_pb.js';
import { checkParameters } from './parameters.js';
import { bytesOfElements, elementsFromBytes, elementsOf, knownDatatype, MAX_RANK } from './tensors.js';
import { timeoutOf } from './v2-json.js';

/** The most inputs, outputs, raw contents, pieces of contents, and parameters of all of them. */
const MAX_ENTRIES = 1024;

/** The most fields of a request: more than texts. */
const MAX_FIELDS = 2 ** 17;

/** The most bytes of a name or another text. */
const MAX_TEXT_BYTES = 4096;

/** The most elements of a request that come as numbers and texts of protobuf rather than as raw bytes. */
const MAX_CONTENTS = 2 ** 20;

/** The most texts of a request. */
const MAX_TEXTS = 2 ** 16;

/** Field number of the raw contents in the answer. */
const RAW_OUTPUTS = 6;

/**
 * The fields of InferTensorContents: their numbers are the places in this list.
 * @type {{ name: string, wire: WireType, datatypes: string[] }[]}
 */
const CONTENTS = [
  { name: '', wire: WireType.Varint, datatypes: [] },
  { name: 'bool_contents', wire: WireType.Varint, datatypes: ['BOOL'] },
  { name: 'int_contents', wire: WireType.Varint, datatypes: ['INT8', 'INT16', 'INT32'] },
  { name: 'int64_contents', wire: WireType.Varint, datatypes: ['INT64'] },
  { name: 'uint_contents', wire: WireType.Varint, datatypes: ['UINT8', 'UINT16', 'UINT32'] },
  { name: 'uint64_contents', wire: WireType.Varint, datatypes: ['UINT64'] },
  { name: 'fp32_contents', wire: WireType.Bit32, datatypes: ['FP32'] },
  { name: 'fp64_contents', wire: WireType.Bit64, datatypes: ['FP64'] },
  { name: 'bytes_contents', wire: WireType.LengthDelimited, datatypes: ['BYTES'] },
];

/** @typedef {bigint | number | string | boolean | undefined} Parameter */

/**
 * An input as the message has it. Contents are the bytes of their messages, which protobuf lets a sender divide.
 * @typedef {{ name: string, datatype: string, shape: number[], parameters: Map<string, Parameter>, contents: Uint8Array[] }} Input
 */

/**
 * ModelInferRequest, whose tensors are not read yet.
 * @typedef {object} InferMessage
 * @property {string} modelName
 * @property {string} modelVersion
 * @property {string} id
 * @property {Map<string, Parameter>} parameters
 * @property {Input[]} inputs
 * @property {{ name: string, parameters: Map<string, Parameter> }[]} outputs
 * @property {Uint8Array[]} raw
 */

/** A field that holds bytes: a text, a message or packed numbers. */
const len = (/** @type {number} */ number) => (number << 3) | WireType.LengthDelimited;

const varint = (/** @type {number} */ number) => (number << 3) | WireType.Varint;

/** Reads the fields of one request, and counts them. */
class Fields {
  #count = 0;
  #parameters = 0;

  /**
   * Calls a function for each field that it knows, and passes over others.
   * @param {Uint8Array} bytes of a message
   * @param {Record<number, (reader: BinaryReader) => void>} known by number and wire type, see {@link len}
   */
  read(bytes, known) {
    const reader = new BinaryReader(bytes);
    while (reader.pos < reader.len) {
      const [number, wire] = reader.tag();
      this.#count += 1;
      if (this.#count > MAX_FIELDS) throw invalid(`the message has more than ${MAX_FIELDS} fields`);
      const read = known[(number << 3) | wire];
      if (read !== undefined) read(reader);
      // proto3 has no groups, and one could hold any number of fields.
      else if (wire === WireType.StartGroup) throw invalid('the message has a group');
      else reader.skip(wire, number);
    }
  }

  countParameter() {
    this.#parameters += 1;
    if (this.#parameters > MAX_ENTRIES) throw invalid(`the message has more than ${MAX_ENTRIES} parameters`);
  }
}

/**
 * A text that is short enough to be shown.
 * @param {BinaryReader} reader
 * @param {string} what names it in errors
 */
function textOf(reader, what) {
  const bytes = reader.bytes();
  if (bytes.length > MAX_TEXT_BYTES) throw invalid(`${what} has ${amount(bytes.length, 'byte')}, expected at most ${MAX_TEXT_BYTES}`);
  return bufferOf(bytes).toString();
}

/**
 * Adds to a list that may not grow without end.
 * @template T
 * @param {T[]} list
 * @param {T} entry
 * @param {string} what names the list in errors
 */
function add(list, entry, what) {
  if (list.length === MAX_ENTRIES) throw invalid(`${what} has more than ${MAX_ENTRIES} entries`);
  list.push(entry);
}

/**
 * An entry of a map of parameters.
 * @param {Fields} fields
 * @param {BinaryReader} reader
 * @param {Map<string, Parameter>} parameters
 */
function readParameter(fields, reader, parameters) {
  fields.countParameter();
  let name = '';
  /** @type {Parameter} */
  let value;
  const choices = {
    [varint(1)]: (/** @type {BinaryReader} */ choice) => (value = choice.bool()),
    [varint(2)]: (/** @type {BinaryReader} */ choice) => (value = BigInt(choice.int64())),
    [len(3)]: (/** @type {BinaryReader} */ choice) => (value = textOf(choice, 'a parameter')),
    [(4 << 3) | WireType.Bit64]: (/** @type {BinaryReader} */ choice) => (value = choice.double()),
    [varint(5)]: (/** @type {BinaryReader} */ choice) => (value = BigInt(choice.uint64())),
  };
  fields.read(reader.bytes(), {
    [len(1)]: (entry) => (name = textOf(entry, 'the name of a parameter')),
    [len(2)]: (entry) => fields.read(entry.bytes(), choices),
  });
  parameters.set(name, value);
}

/**
 * Adds sizes to a shape.
 * @param {number[]} shape
 * @param {BinaryReader} reader of one size, or of packed ones
 * @param {number} end place behind the last size
 */
function readSizes(shape, reader, end) {
  while (reader.pos < end) {
    if (shape.length === MAX_RANK) throw invalid(`a shape has more than ${MAX_RANK} sizes`);
    shape.push(Number(reader.int64()));
  }
}

/**
 * @param {Fields} fields
 * @param {Uint8Array} bytes InferInputTensor
 */
function readInput(fields, bytes) {
  /** @type {Input} */
  const input = { name: '', datatype: '', shape: [], parameters: new Map(), contents: [] };
  fields.read(bytes, {
    [len(1)]: (reader) => (input.name = textOf(reader, 'the name of an input')),
    [len(2)]: (reader) => (input.datatype = textOf(reader, 'a datatype')),
    [len(3)]: (reader) => {
      const sizes = new BinaryReader(reader.bytes());
      readSizes(input.shape, sizes, sizes.len);
    },
    [varint(3)]: (reader) => readSizes(input.shape, reader, reader.pos + 1),
    [len(4)]: (reader) => readParameter(fields, reader, input.parameters),
    [len(5)]: (reader) => add(input.contents, reader.bytes(), 'contents'),
  });
  return input;
}

/**
 * @param {Fields} fields
 * @param {Uint8Array} bytes InferRequestedOutputTensor
 */
function readOutput(fields, bytes) {
  const output = { name: '', parameters: /** @type {Map<string, Parameter>} */ (new Map()) };
  fields.read(bytes, {
    [len(1)]: (reader) => (output.name = textOf(reader, 'the name of an output')),
    [len(2)]: (reader) => readParameter(fields, reader, output.parameters),
  });
  return output;
}

/**
 * Reads ModelInferRequest up to its tensors, without a copy of their bytes.
 * @param {Uint8Array} bytes
 * @returns {InferMessage}
 * @throws {import('../errors.js').ServeError}
 */
export function readInferMessage(bytes) {
  /** @type {InferMessage} */
  const message = { modelName: '', modelVersion: '', id: '', parameters: new Map(), inputs: [], outputs: [], raw: [] };
  const fields = new Fields();
  fields.read(bytes, {
    [len(1)]: (reader) => (message.modelName = textOf(reader, 'model_name')),
    [len(2)]: (reader) => (message.modelVersion = textOf(reader, 'model_version')),
    [len(3)]: (reader) => (message.id = textOf(reader, 'id')),
    [len(4)]: (reader) => readParameter(fields, reader, message.parameters),
    [len(5)]: (reader) => add(message.inputs, readInput(fields, reader.bytes()), 'inputs'),
    [len(6)]: (reader) => add(message.outputs, readOutput(fields, reader.bytes()), 'outputs'),
    [len(7)]: (reader) => add(message.raw, reader.bytes(), 'raw_input_contents'),
  });
  return message;
}

/**
 * Reads varints.
 * @param {Uint8Array} bytes of nothing else
 * @param {(low: number, high: number) => void} take gets each as two halves of 32 bits
 */
function readVarints(bytes, take) {
  let low = 0;
  let high = 0;
  let shift = 0;
  for (const byte of bytes) {
    const bits = byte & 127;
    if (shift < 32) low |= bits << shift;
    if (shift >= 28) high |= shift < 32 ? bits >>> 4 : bits << (shift - 32);
    if (byte < 128) {
      take(low, high);
      low = high = shift = 0;
    } else {
      shift += 7;
      if (shift > 63) throw invalid('a number has more than 10 bytes');
    }
  }
  if (shift > 0) throw invalid('a number ends too early');
}

/** Puts the elements of contents into an array, one after the other. */
class Elements {
  #datatype;
  #count;
  #what;
  /** @type {any} */
  #array;
  #at = 0;

  /**
   * @param {import('./datatypes.js').Datatype} datatype
   * @param {number} count
   * @param {string} what names the tensor in errors
   */
  constructor(datatype, count, what) {
    this.#datatype = datatype;
    this.#count = count;
    this.#what = what;
    this.#array = datatype.json === 'text' ? [] : new datatype.array(new ArrayBuffer(count * datatype.bytes));
  }

  /** @param {number} more elements that come */
  #advance(more) {
    this.#at += more;
    if (this.#at > this.#count) throw invalid(`${this.#what}: its shape has ${amount(this.#count, 'element')}, its contents more`);
    return this.#at - more;
  }

  /** @param {Uint8Array} bytes of integers */
  addVarints(bytes) {
    const { json, name, range } = this.#datatype;
    const array = this.#array;
    const halves = json === 'big' ? new Int32Array(array.buffer) : array;
    readVarints(bytes, (low, high) => {
      const at = this.#advance(1);
      if (json === 'big') {
        halves[2 * at] = low;
        halves[2 * at + 1] = high;
      } else if (json === 'bool') {
        array[at] = low !== 0 || high !== 0 ? 1 : 0;
      } else {
        const value = name.startsWith('U') ? low >>> 0 : low;
        if (range !== undefined && (value < range[0] || value > range[1])) throw invalid(`${this.#what}: element ${at} is ${value}, which is no ${name}`);
        array[at] = value;
      }
    });
  }

  /** @param {Uint8Array} bytes of floats, which are in the array as on the wire */
  addFloats(bytes) {
    const { bytes: size, name } = this.#datatype;
    if (bytes.length % size !== 0) throw invalid(`${this.#what} has ${amount(bytes.length, 'byte')}, expected whole elements of ${name}`);
    new Uint8Array(this.#array.buffer).set(bytes, this.#advance(bytes.length / size) * size);
  }

  /** @param {Uint8Array} text */
  addText(text) {
    this.#array[this.#advance(1)] = text;
  }

  /** All of them. */
  end() {
    if (this.#at !== this.#count) throw invalid(`${this.#what}: its shape has ${amount(this.#count, 'element')}, its contents ${this.#at}`);
    return this.#array;
  }
}

/**
 * The elements of contents.
 * @param {Fields} fields
 * @param {Uint8Array[]} contents InferTensorContents, in pieces
 * @param {import('./datatypes.js').Datatype} datatype
 * @param {number} count
 * @param {string} what
 */
function elementsFromContents(fields, contents, datatype, count, what) {
  const number = CONTENTS.findIndex(({ datatypes }) => datatypes.includes(datatype.name));
  if (number === -1) throw invalid(`${what}: ${datatype.name} has no contents; send raw_input_contents`);
  // No array is larger than eight times what came.
  const bytes = contents.reduce((sum, piece) => sum + piece.length, 0);
  if (count > bytes) throw invalid(`${what}: its shape has ${amount(count, 'element')}, its contents fewer`);
  const elements = new Elements(datatype, count, what);
  const { wire, name } = CONTENTS[number];
  const addNumbers = (/** @type {Uint8Array} */ numbers) => (wire === WireType.Varint ? elements.addVarints(numbers) : elements.addFloats(numbers));
  const others = CONTENTS.flatMap((other, i) => {
    if (i === 0 || i === number) return [];
    const refuse = () => {
      throw invalid(`${what}: ${datatype.name} has ${name}, and it has ${other.name}`);
    };
    return [len(i), (i << 3) | other.wire].map((tag) => /** @type {const} */ ([tag, refuse]));
  });
  /** @type {Record<number, (reader: BinaryReader) => void>} */
  const known = Object.fromEntries(others);
  if (wire === WireType.LengthDelimited) known[len(number)] = (reader) => elements.addText(reader.bytes());
  else {
    known[len(number)] = (reader) => addNumbers(reader.bytes());
    // Older senders have a field for each number.
    known[(number << 3) | wire] = (reader) => addNumbers(reader.skip(wire));
  }
  for (const piece of contents) fields.read(piece, known);
  return elements.end();
}

/** Counts elements of all inputs of a request against limits. */
class Room {
  #contents = MAX_CONTENTS;
  #texts = MAX_TEXTS;

  /**
   * @param {number} count of elements
   * @param {{ isRaw: boolean, isText: boolean }} form
   * @param {string} what
   */
  take(count, { isRaw, isText }, what) {
    if (!isRaw) this.#contents -= count;
    if (isText) this.#texts -= count;
    if (this.#contents < 0) throw invalid(`${what}: contents may have ${MAX_CONTENTS} elements together; send raw_input_contents`);
    if (this.#texts < 0) throw invalid(`${what}: a request may have ${MAX_TEXTS} strings`);
  }
}

/**
 * The request of a message.
 * @param {InferMessage} message
 * @returns {{ request: import('../models/tensor-model.js').InferRequest, timeoutMs: number | undefined }}
 * @throws {import('../errors.js').ServeError}
 */
export function decodeInfer({ inputs: given, outputs, raw, parameters }) {
  checkParameters(parameters, 'request', 'the request');
  const isRaw = raw.length > 0;
  if (isRaw && raw.length !== given.length) throw invalid(`raw_input_contents has ${raw.length} entries for ${amount(given.length, 'input')}`);
  const fields = new Fields();
  const room = new Room();
  const inputs = new Map();
  given.forEach(({ name, datatype: type, shape, contents, parameters: own }, i) => {
    const what = `input ${JSON.stringify(name)}`;
    if (inputs.has(name)) throw invalid(`${what} is given twice`);
    checkParameters(own, 'tensor', what);
    if (isRaw && contents.some(({ length }) => length > 0)) throw invalid(`${what}: contents must not be set beside raw_input_contents`);
    const datatype = knownDatatype(type, what);
    const count = elementsOf(shape, what);
    room.take(count, { isRaw, isText: datatype.json === 'text' }, what);
    const data = isRaw ? elementsFromBytes(bufferOf(raw[i]), datatype, count, what) : elementsFromContents(fields, contents, datatype, count, what);
    inputs.set(name, { datatype: type, shape, data });
  });
  for (const { name, parameters: own } of outputs) checkParameters(own, 'tensor', `output ${JSON.stringify(name)}`);
  const timeout = parameters.get('timeout');
  return {
    request: { inputs, outputs: outputs.length === 0 ? null : outputs.map(({ name }) => name) },
    timeoutMs: timeoutOf({ timeout: typeof timeout === 'bigint' ? Number(timeout) : timeout }),
  };
}

const bufferOf = (/** @type {Uint8Array} */ { buffer, byteOffset, length }) => Buffer.from(buffer, byteOffset, length);

/**
 * The bytes of ModelInferResponse.
 * @param {{ name: string, version: string }} model
 * @param {string} id of the request
 * @param {import('../models/tensor-model.js').InferResult} result
 * @returns {Uint8Array[]} in pieces: outputs need not be copied for it
 */
export function encodeInfer({ name, version }, id, result) {
  const outputs = [...result].map(([output, { datatype, shape }]) => ({ name: output, datatype, shape: shape.map(BigInt) }));
  const fields = /** @type {object} */ ({ modelName: name, modelVersion: version, id, outputs });
  const head = toBinary(ModelInferResponseSchema, create(ModelInferResponseSchema, fields));
  // Fields of a message may follow each other in any order.
  const raw = [...result.values()].flatMap((tensor) => {
    const bytes = bytesOfElements(tensor);
    return [new BinaryWriter().tag(RAW_OUTPUTS, WireType.LengthDelimited).uint32(bytes.length).finish(), bytes];
  });
  return [head, ...raw];
}

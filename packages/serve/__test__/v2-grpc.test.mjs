// Messages of gRPC: what protobufjs writes is read right, and whatever else comes costs next to nothing.

import assert from 'node:assert/strict';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import protobuf from 'protobufjs';
import { generator } from '../../../__test__/lib/random.mjs';
import * as generated from '../lib/grpc/gen/inference_pb.js';
import { datatypeOf } from '../lib/protocol/datatypes.js';
import { decodeInfer, encodeInfer, readInferMessage } from '../lib/protocol/v2-grpc.js';
import { bytesField, field, repeated, varint } from './wire.mjs';

const root = protobuf.loadSync(fileURLToPath(new URL('../lib/grpc/inference.proto', import.meta.url)));
const Request = root.lookupType('inference.ModelInferRequest');
const Response = root.lookupType('inference.ModelInferResponse');

const encode = (/** @type {object} */ message) => Request.encode(Request.fromObject(message)).finish();
const decode = (/** @type {Uint8Array} */ bytes) => decodeInfer(readInferMessage(bytes)).request;

/** The field of contents of each datatype, as the protocol says. */
const FIELDS = {
  BOOL: 'boolContents',
  INT8: 'intContents',
  INT16: 'intContents',
  INT32: 'intContents',
  INT64: 'int64Contents',
  UINT8: 'uintContents',
  UINT16: 'uintContents',
  UINT32: 'uintContents',
  UINT64: 'uint64Contents',
  FP32: 'fp32Contents',
  FP64: 'fp64Contents',
};

test('the generated code has all that inference.proto has', () => {
  const types = /** @type {any} */ (root.lookup('inference')).nestedArray.flatMap((type) => [type, ...(type.nestedArray ?? [])]);
  const messages = types.filter((type) => type instanceof protobuf.Type);
  assert.ok(messages.length > 20);
  for (const type of messages) {
    const path = type.fullName.slice('.inference.'.length);
    const { fields } = generated[`${path.replaceAll('.', '_')}Schema`];
    assert.deepEqual(
      fields.map(({ number, name, fieldKind }) => [number, name, fieldKind]),
      type.fieldsArray.map(({ id, name, repeated, map, resolvedType }) => [
        id,
        name.replace(/[A-Z]/g, (letter) => (/^is/.test(name) ? letter : `_${letter.toLowerCase()}`)),
        map ? 'map' : repeated ? 'list' : (resolvedType ?? type.resolveAll().fields[name].resolvedType) ? 'message' : 'scalar',
      ]),
      path,
    );
  }
  const methods = root.lookupService('inference.GRPCInferenceService').methodsArray.map(({ name }) => name);
  assert.deepEqual(
    generated.GRPCInferenceService.methods.map(({ name }) => name),
    methods,
  );
});

/** How a number stands in a field of its own. @type {Record<string, (name: string, number: any) => [0 | 1 | 5, Buffer]>} */
const NUMBERS = {
  float: (name, number) => {
    const bytes = Buffer.alloc(name === 'FP32' ? 4 : 8);
    if (name === 'FP32') bytes.writeFloatLE(number);
    else bytes.writeDoubleLE(number);
    return [name === 'FP32' ? 5 : 1, bytes];
  },
  other: (_, number) => [0, varint(number)],
};

test('numbers of all datatypes are read exactly: packed, one by one, and in pieces', () => {
  const { below, pick } = generator(1);
  for (const [name, called] of Object.entries(FIELDS)) {
    const { json, array, range = [-(2 ** 31), 2 ** 31 - 1] } = /** @type {any} */ (datatypeOf(name));
    const { id } = root.lookupType('inference.InferTensorContents').fields[called];
    const [lowest, highest] = range;
    for (let round = 0; round < 40; round++) {
      const values = Array.from({ length: below(40) }, () => {
        if (json === 'big')
          return pick([lowest, highest, 0n, 127n, 128n, 2n ** 32n - 1n, 2n ** 53n + 1n, lowest + BigInt(below(1000)), highest - BigInt(below(1000))]);
        if (json === 'float') return Math.fround(pick([0, -0, 1e38, -1.5, below(1000) / 3, Infinity, NaN]));
        if (json === 'bool') return below(2);
        return pick([lowest, highest, 0, 1, 127, lowest + below(highest - lowest)]);
      });
      const expected = array.from(values);
      const parts = values.map((one) => NUMBERS[json === 'float' ? 'float' : 'other'](name, one));
      const packed = bytesField(id, Buffer.concat(parts.map(([, bytes]) => bytes)));
      const single = Buffer.concat(parts.map(([wire, bytes]) => field(id, wire, bytes)));
      const half = parts.length >> 1;
      const [first, second] = [parts.slice(0, half), parts.slice(half)].map((some) => bytesField(id, Buffer.concat(some.map(([, bytes]) => bytes))));
      for (const contents of [[packed], [single], [first, second], [Buffer.concat([first, second])]]) {
        const input = Buffer.concat([
          ...contents.map((bytes) => bytesField(5, bytes)),
          field(3, 0, varint(values.length)),
          bytesField(99, 'not known'),
          bytesField(1, 'x'),
          bytesField(2, name),
        ]);
        const { data } = /** @type {any} */ (decode(bytesField(5, input)).inputs.get('x'));
        assert.deepEqual(data, expected);
      }
      // What the library of others writes is the first form.
      const theirs = { [called]: json === 'big' ? values.map(String) : json === 'bool' ? values.map(Boolean) : values };
      const message = encode({ inputs: [{ name: 'x', datatype: name, shape: [values.length], contents: theirs }] });
      assert.deepEqual(/** @type {any} */ (decode(message).inputs.get('x')).data, expected);
    }
  }
});

test('a number that its datatype does not have is refused', () => {
  for (const [name, number] of /** @type {[string, number][]} */ ([
    ['INT8', 128],
    ['INT8', -129],
    ['UINT8', 256],
    ['INT16', 32768],
    ['UINT16', 65536],
  ])) {
    const { id } = root.lookupType('inference.InferTensorContents').fields[FIELDS[name]];
    const input = Buffer.concat([bytesField(1, 'x'), bytesField(2, name), field(3, 0, varint(1)), bytesField(5, bytesField(id, varint(number)))]);
    assert.throws(() => decode(bytesField(5, input)), { kind: 'invalid', message: `input "x": element 0 is ${number}, which is no ${name}` });
  }
});

test('texts, parameters, outputs and raw bytes are read', () => {
  const texts = ['', 'ä', 'x'.repeat(300)].map((text) => Buffer.from(text));
  const message = encode({
    modelName: 'm',
    modelVersion: '3',
    id: '7',
    parameters: { timeout: { int64Param: 1500 }, a: { boolParam: true }, b: { doubleParam: 1.5 }, c: { stringParam: 'x' }, d: { uint64Param: 5 } },
    inputs: [{ name: 'text', datatype: 'BYTES', shape: [3], contents: { bytesContents: texts } }],
    outputs: [{ name: 'y', parameters: { z: { int64Param: -1 } } }],
  });
  const read = readInferMessage(message);
  assert.deepEqual([read.modelName, read.modelVersion, read.id], ['m', '3', '7']);
  assert.deepEqual([...read.parameters].toSorted(), [
    ['a', true],
    ['b', 1.5],
    ['c', 'x'],
    ['d', 5n],
    ['timeout', 1500n],
  ]);
  const { request, timeoutMs } = decodeInfer(read);
  assert.equal(timeoutMs, 1.5);
  assert.deepEqual(request.outputs, ['y']);
  assert.deepEqual(
    /** @type {any} */ (request.inputs.get('text')).data.map((text) => Buffer.from(text)),
    texts,
  );
  const raw = encode({ inputs: [{ name: 'x', datatype: 'FP64', shape: [2] }], rawInputContents: [new Uint8Array(Float64Array.of(1, -2).buffer)] });
  // Wherever the bytes begin.
  for (let shift = 0; shift < 8; shift++) {
    const shifted = Buffer.concat([Buffer.alloc(shift), raw]).subarray(shift);
    assert.deepEqual(decode(shifted).inputs.get('x')?.data, Float64Array.of(1, -2));
  }
});

test('an answer is one that others read', () => {
  const result = new Map([
    ['a', { datatype: 'FP32', shape: [1, 2], data: Float32Array.of(1, 2) }],
    ['b', { datatype: 'BYTES', shape: [1], data: [Buffer.from('hm')] }],
    ['c', { datatype: 'INT64', shape: [0], data: new BigInt64Array(0) }],
  ]);
  const bytes = Buffer.concat(encodeInfer({ name: 'm', version: '2' }, 'id', result));
  const { modelName, modelVersion, id, outputs, rawOutputContents } = Response.toObject(Response.decode(bytes), { longs: Number });
  assert.deepEqual([modelName, modelVersion, id], ['m', '2', 'id']);
  assert.deepEqual(
    outputs.map(({ name, datatype, shape = [] }) => [name, datatype, shape]),
    [
      ['a', 'FP32', [1, 2]],
      ['b', 'BYTES', [1]],
      ['c', 'INT64', [0]],
    ],
  );
  assert.deepEqual(
    rawOutputContents.map((raw) => [...raw]),
    [[...new Uint8Array(Float32Array.of(1, 2).buffer)], [2, 0, 0, 0, 104, 109], []],
  );
});

test('what any bytes cost is bounded: a refusal, and no more memory than some messages of their size', () => {
  const { below, chance } = generator(7);
  const right = encode({
    modelName: 'm',
    inputs: [{ name: 'x', datatype: 'INT64', shape: [3], contents: { int64Contents: [1, 2, 3] } }],
    outputs: [{ name: 'y' }],
  });
  for (let i = 0; i < 20_000; i++) {
    const bytes = Buffer.from(chance(0.2) ? Buffer.from(Array.from({ length: below(60) }, () => below(256))) : right);
    for (let n = below(4); n > 0 && bytes.length > 0; n--) bytes[below(bytes.length)] = below(256);
    const cut = bytes.subarray(0, chance(0.3) ? below(bytes.length + 1) : bytes.length);
    try {
      decode(cut);
    } catch (error) {
      // Errors of ours, or of the library about bytes that are no message.
      const { name, kind, message } = /** @type {any} */ (error);
      const isTheirs = name === 'ServeError' ? kind === 'invalid' : /premature EOF|illegal tag|invalid varint|cant skip|invalid end group/.test(message);
      assert.ok(isTheirs, `${cut.toString('hex')}: ${error}`);
    }
  }
});

/** Messages that are much for their size, by what they are full of. */
const FULL = {
  'sizes of a shape': (size) => bytesField(5, bytesField(3, repeated(Buffer.from([1]), size))),
  'sizes one by one': (size) => bytesField(5, repeated(field(3, 0, varint(1)), size)),
  'packed numbers': (size) =>
    bytesField(
      5,
      Buffer.concat([
        bytesField(1, 'x'),
        bytesField(2, 'INT64'),
        bytesField(3, varint(size >> 3)),
        bytesField(5, bytesField(3, repeated(Buffer.from([1]), size))),
      ]),
    ),
  'numbers without a datatype': (size) => bytesField(5, bytesField(5, bytesField(3, repeated(Buffer.from([1]), size)))),
  'numbers one by one': (size) =>
    bytesField(5, Buffer.concat([bytesField(2, 'INT64'), bytesField(3, varint(2 ** 20)), bytesField(5, repeated(field(3, 0, varint(1)), size))])),
  'empty texts': (size) =>
    bytesField(5, Buffer.concat([bytesField(2, 'BYTES'), bytesField(3, varint(2 ** 16)), bytesField(5, repeated(bytesField(8, ''), size))])),
  'empty raw texts': (size) =>
    Buffer.concat([bytesField(5, Buffer.concat([bytesField(2, 'BYTES'), bytesField(3, varint(size >> 2))])), bytesField(7, Buffer.alloc(size))]),
  inputs: (size) => repeated(bytesField(5, ''), size),
  outputs: (size) => repeated(bytesField(6, ''), size),
  'raw contents': (size) => repeated(bytesField(7, ''), size),
  contents: (size) => bytesField(5, repeated(bytesField(5, ''), size)),
  parameters: (size) => repeated(bytesField(4, ''), size),
  'names of parameters': (size) => Buffer.concat(Array.from({ length: size >> 4 }, (_, i) => bytesField(4, bytesField(1, String(i).padStart(12))))),
  'values of a parameter': (size) => bytesField(4, bytesField(2, repeated(field(2, 0, varint(1)), size))),
  names: (size) => bytesField(1, repeated(Buffer.from('x'), size)),
  'fields that nobody knows': (size) => repeated(field(99, 0, varint(1)), size),
  'nested fields that nobody knows': (size) => bytesField(5, bytesField(4, bytesField(2, repeated(field(99, 0, varint(1)), size)))),
  groups: (size) => repeated(Buffer.from([0x9b, 0x06, 0x9c, 0x06]), size),
  'an open group': (size) => Buffer.concat([Buffer.from([0x9b, 0x06]), repeated(field(99, 0, varint(1)), size)]),
  'one number without an end': (size) => repeated(Buffer.from([0xff]), size),
  'a number without an end': (size) => Buffer.concat([varint(99 << 3), repeated(Buffer.from([0xff]), size)]),
};

for (const [what, make] of Object.entries(FULL)) {
  test(`a message full of ${what} is refused for little memory`, () => {
    const bytes = make(2 ** 24);
    globalThis.gc?.();
    const before = process.memoryUsage();
    assert.throws(() => decode(bytes));
    const after = process.memoryUsage();
    const grown = after.heapUsed - before.heapUsed + after.arrayBuffers - before.arrayBuffers;
    // Without limits each of the 16 MiB costs 5 to 60 bytes of objects.
    assert.ok(grown < 2 ** 25, `${grown} bytes`);
  });
}

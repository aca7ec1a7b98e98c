import assert from 'node:assert/strict';
import test from 'node:test';
import { decodeRequest, joinAnswer, splitResult, writeHead } from '../lib/protocol/v2-json.js';
import { defined } from '../../../__test__/lib/types.mjs';

const decode = (json) => decodeRequest(Buffer.from(JSON.stringify(json)), undefined);
const input = (fields) => ({ name: 'x', shape: [2], datatype: 'FP32', data: [1, 2], ...fields });
const tensorOf = (fields) => decode({ inputs: [input(fields)] }).request.inputs.get('x');

/**
 * A whole answer, as the server puts it together.
 * @param {Parameters<typeof writeHead>[0]} model
 * @param {ReturnType<typeof decodeRequest>} decoded
 * @param {Parameters<typeof splitResult>[1]} result
 */
function encodeAnswer(model, decoded, result) {
  const { outputs, raw } = splitResult(decoded, result);
  return joinAnswer(writeHead(model, decoded.id, outputs), raw);
}

/** An answer with raw bytes. @param {Parameters<typeof encodeAnswer>} args */
function binaryAnswer(...args) {
  const { body, headLength } = encodeAnswer(...args);
  assert.ok(Buffer.isBuffer(body));
  return { body, headLength: defined(headLength) };
}

/** A body with raw bytes behind the JSON. */
function binary(json, ...pieces) {
  const head = Buffer.from(JSON.stringify(json));
  return decodeRequest(Buffer.concat([head, ...pieces]), String(head.length));
}

test('lists deeper than the stack are the fault of the caller, wherever they are', () => {
  const text = (/** @type {object} */ fields) => {
    const place = '"deep"';
    const json = JSON.stringify({ inputs: [input(fields)] });
    assert.ok(json.includes(place));
    return Buffer.from(json.replace(place, '['.repeat(100_000) + ']'.repeat(100_000)));
  };
  for (const fields of [
    { data: 'deep' },
    { shape: [1], data: 'deep' },
    { shape: ['deep'] },
    { datatype: 'deep' },
    { parameters: { binary_data_size: 'deep' } },
  ]) {
    assert.throws(() => decodeRequest(text(fields), undefined), { kind: 'invalid' });
  }
});

test('reads each type that JSON can write', () => {
  const cases = {
    BOOL: [[true, 0], Uint8Array.of(1, 0)],
    UINT8: [[0, 255], Uint8Array.of(0, 255)],
    UINT16: [[0, 65535], Uint16Array.of(0, 65535)],
    UINT32: [[0, 4294967295], Uint32Array.of(0, 4294967295)],
    UINT64: [[0, 2 ** 53 - 1], BigUint64Array.of(0n, 2n ** 53n - 1n)],
    INT8: [[-128, 127], Int8Array.of(-128, 127)],
    INT16: [[-32768, 32767], Int16Array.of(-32768, 32767)],
    INT32: [[-(2 ** 31), 2 ** 31 - 1], Int32Array.of(-(2 ** 31), 2 ** 31 - 1)],
    INT64: [[-(2 ** 53 - 1), 7], BigInt64Array.of(-(2n ** 53n - 1n), 7n)],
    FP32: [[0.5, -1e10], Float32Array.of(0.5, -1e10)],
    FP64: [[0.1, 1e300], Float64Array.of(0.1, 1e300)],
    BYTES: [
      ['a', 'ö'],
      [Buffer.from('a'), Buffer.from('ö')],
    ],
  };
  for (const [datatype, [data, expected]] of Object.entries(cases)) assert.deepEqual(tensorOf({ datatype, data }), { datatype, shape: [2], data: expected });
});

test('reads nested lists', () => {
  assert.deepEqual(defined(tensorOf({ shape: [2, 1], data: [[1], [2]] })).data, Float32Array.of(1, 2));
});

test('refuses what JSON would round or cannot say', () => {
  assert.throws(() => tensorOf({ datatype: 'INT64', data: [1, 2 ** 53] }), /element 1 is 9007199254740992.*send raw bytes/);
  assert.throws(() => tensorOf({ datatype: 'UINT64', data: [1, -1] }), /element 1 is -1/);
  assert.throws(() => tensorOf({ datatype: 'INT8', data: [1, 128] }), /element 1 is 128, expected a value of type INT8/);
  assert.throws(() => tensorOf({ datatype: 'INT32', data: [1, 1.5] }), /element 1 is 1.5/);
  assert.throws(() => tensorOf({ data: [1, null] }), /element 1 is null/);
  assert.throws(() => tensorOf({ data: [1, '2'] }), /element 1 is "2"/);
  assert.throws(() => tensorOf({ datatype: 'FP16' }), /JSON has no numbers of type FP16/);
  assert.throws(() => tensorOf({ datatype: 'FP8' }), /no datatype "FP8"/);
});

test('refuses shapes and lengths that do not fit', () => {
  const cases = [
    [{ shape: [3] }, /3 elements, its data 2/],
    [{ shape: [-1] }, /has -1/],
    [{ shape: [1.5] }, /has 1.5/],
    [{ shape: [2 ** 53] }, /has 9007199254740992/],
    [{ shape: [2 ** 31, 2 ** 31] }, /more than 2147483648 elements/],
    [{ shape: 2 }, /not a list/],
    [{ shape: Array(33).fill(1) }, /at most 32 sizes/],
    [{ data: undefined }, /data are not a list/],
    [{ data: 'ab' }, /data are not a list/],
    [{ name: 7 }, /must be an object with a name/],
  ];
  for (const [fields, message] of cases) assert.throws(() => tensorOf(fields), message);
});

test('refuses bodies that are no request', () => {
  for (const text of [
    '',
    '{',
    '[]',
    'null',
    '{"inputs":{}}',
    '{"inputs":[null]}',
    '{"inputs":[],"id":7}',
    '{"inputs":[],"parameters":[]}',
    '{"inputs":[],"outputs":7}',
  ]) {
    assert.throws(() => decodeRequest(Buffer.from(text), undefined), { kind: 'invalid' }, text);
  }
  assert.throws(() => decode({ inputs: [input(), input()] }), /"x" is given twice/);
});

test('members that may be left out may be null', () => {
  const without = decode({ inputs: [input()], outputs: [{ name: 'y' }] });
  const parameters = { binary_data_output: null, timeout: null };
  assert.deepEqual(
    decode({ id: null, parameters, inputs: [input({ parameters: null })], outputs: [{ name: 'y', parameters: { binary_data: null, classification: null } }] }),
    without,
  );
  assert.deepEqual(
    decode({ id: null, parameters: null, inputs: [input({ parameters: { binary_data_size: null } })], outputs: [{ name: 'y', parameters: null }] }),
    without,
  );
  assert.deepEqual(decode({ inputs: [input()], outputs: null }), decode({ inputs: [input()] }));
  const raw = Buffer.from(Float32Array.of(1, 2).buffer);
  const { request } = binary({ inputs: [input({ data: null, parameters: { binary_data_size: 8 } })] }, raw);
  assert.deepEqual(defined(request.inputs.get('x')).data, Float32Array.of(1, 2));
  for (const wrong of [{ inputs: null }, { inputs: [null] }, { inputs: [input({ shape: null })] }, { inputs: [input({ datatype: null })] }]) {
    assert.throws(() => decode(wrong), { kind: 'invalid' });
  }
});

test('an input has its elements once', () => {
  const raw = Buffer.from(Float32Array.of(3, 4).buffer);
  assert.throws(() => binary({ inputs: [input({ parameters: { binary_data_size: 8 } })] }, raw), /"x" has data and binary_data_size; send one of them/);
});

test('reads raw bytes, also where they are not aligned', () => {
  const raw = Buffer.from(Float32Array.of(1.5, -2).buffer);
  for (const name of ['x', 'xx', 'xxx', 'xxxx']) {
    const { request } = binary({ inputs: [{ name, shape: [2], datatype: 'FP32', parameters: { binary_data_size: 8 } }] }, raw);
    assert.deepEqual(defined(request.inputs.get(name)).data, Float32Array.of(1.5, -2));
  }
});

test('reads several raw inputs, mixed with others, and raw texts', () => {
  const json = {
    inputs: [
      { name: 'a', shape: [1], datatype: 'INT64', parameters: { binary_data_size: 8 } },
      { name: 'b', shape: [1], datatype: 'FP32', data: [3] },
      { name: 'c', shape: [2], datatype: 'BYTES', parameters: { binary_data_size: 10 } },
    ],
  };
  const texts = Buffer.from([1, 0, 0, 0, 97, 1, 0, 0, 0, 98]);
  const { inputs } = binary(json, Buffer.from(BigInt64Array.of(2n ** 60n + 1n).buffer), texts).request;
  assert.deepEqual(
    [...inputs.values()].map(({ data }) => data),
    [BigInt64Array.of(2n ** 60n + 1n), Float32Array.of(3), [Buffer.from('a'), Buffer.from('b')]],
  );
});

test('refuses lengths that lie', () => {
  const head = { name: 'x', shape: [2], datatype: 'FP32' };
  const of = (size, bytes) => () => binary({ inputs: [{ ...head, parameters: { binary_data_size: size } }] }, Buffer.alloc(bytes));
  assert.throws(of(8, 4), /binary_data_size is 8, expected 0 to 4, the bytes that are left after the JSON/);
  assert.throws(of(4, 4), /2 elements of FP32 take 8 bytes, not 4/);
  assert.throws(of(8, 9), /1 byte after the JSON, which no input expects/);
  assert.throws(of(-8, 8), /binary_data_size is -8/);
  assert.throws(of('8', 8), /binary_data_size is "8"/);
  for (const length of ['99999', '-1', 'x', '1e3', '']) assert.throws(() => decodeRequest(Buffer.from('{"inputs":[]}'), length), { kind: 'invalid' }, length);
  const texts = (bytes) => () =>
    binary({ inputs: [{ name: 'x', shape: [1], datatype: 'BYTES', parameters: { binary_data_size: bytes.length } }] }, Buffer.from(bytes));
  assert.throws(texts([255, 255, 255, 255, 1]), /string 0 ends at byte 4294967299 of 5/);
  assert.throws(texts([1, 0, 0]), /expected 1 string with a length before each/);
  assert.throws(texts([0, 0, 0, 0, 0, 0, 0, 0]), /expected 1 string with a length before each/);
});

test('writes numbers, and raw bytes where they are wanted', () => {
  const model = { name: 'm', version: '3' };
  const result = new Map([
    ['y', { datatype: 'FP32', shape: [2], data: Float32Array.of(1, 2) }],
    ['z', { datatype: 'INT64', shape: [1], data: BigInt64Array.of(5n) }],
  ]);
  const decoded = decode({ id: 'q', inputs: [], outputs: [{ name: 'y', parameters: { binary_data: true } }, { name: 'z' }] });
  const { body, headLength } = binaryAnswer(model, decoded, result);
  assert.deepEqual(JSON.parse(body.subarray(0, headLength).toString()), {
    model_name: 'm',
    model_version: '3',
    id: 'q',
    outputs: [
      { name: 'y', datatype: 'FP32', shape: [2], parameters: { binary_data_size: 8 } },
      { name: 'z', datatype: 'INT64', shape: [1], data: [5] },
    ],
  });
  assert.deepEqual(body.subarray(headLength), Buffer.from(Float32Array.of(1, 2).buffer));
  const all = decode({ inputs: [], parameters: { binary_data_output: true } });
  const { body: both, headLength: first } = binaryAnswer(model, all, result);
  assert.equal(both.length - first, 16);
  assert.equal(encodeAnswer(model, decode({ inputs: [] }), result).headLength, null);
});

test('does not write null for numbers that JSON lacks', () => {
  const write = (datatype, data) => () => encodeAnswer({ name: 'm', version: '1' }, decode({ inputs: [] }), new Map([['y', { datatype, shape: [1], data }]]));
  assert.throws(write('FP32', Float32Array.of(NaN)), /JSON cannot write NaN of type FP32; ask for raw bytes/);
  assert.throws(write('FP64', Float64Array.of(-Infinity)), /cannot write -Infinity/);
  assert.throws(write('INT64', BigInt64Array.of(2n ** 53n)), /cannot write 9007199254740992/);
  assert.throws(write('FP16', Uint16Array.of(1)), /no numbers of type FP16/);
});

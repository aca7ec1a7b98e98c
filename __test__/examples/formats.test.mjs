import assert from 'node:assert/strict';
import path from 'node:path';
import test from 'node:test';
import { temporaryFolder } from '../lib/folders.mjs';
import { parseSafetensors, readSafetensors } from '../../examples/digits/safetensors.mjs';
import { FormatError } from '../../examples/digits/tensor-data.mjs';

const bytesOf = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
const fails = (run, message) =>
  assert.throws(run, (error) => {
    assert.ok(error instanceof FormatError, String(error));
    assert.match(error.message, message);
    return true;
  });

function safetensors(header, data = new Uint8Array()) {
  const text = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header));
  const length = bytesOf(new BigUint64Array([BigInt(text.length)]));
  return Uint8Array.from([...length, ...text, ...data]);
}

/** Every type of the format with some values; `stored` is what lies in the file. */
const TYPES = [
  { dtype: 'F64', type: 'float64', stored: Float64Array.of(1.5, -2) },
  { dtype: 'F32', type: 'float32', stored: Float32Array.of(1.5, -2) },
  {
    dtype: 'F16',
    type: 'float16',
    stored: Uint16Array.of(0x3c00, 0xc000, 0x0001, 0x83ff, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x8000),
    values: Float32Array.of(1, -2, 2 ** -24, -1023 * 2 ** -24, 65504, Infinity, -Infinity, NaN, -0),
  },
  {
    dtype: 'BF16',
    type: 'bfloat16',
    stored: Uint16Array.of(0x3f80, 0xc000, 0x7f80, 0xff80),
    values: Float32Array.of(1, -2, Infinity, -Infinity),
  },
  { dtype: 'I64', type: 'int64', stored: BigInt64Array.of(-(2n ** 63n), 7n) },
  { dtype: 'U64', type: 'uint64', stored: BigUint64Array.of(2n ** 64n - 1n) },
  { dtype: 'I32', type: 'int32', stored: Int32Array.of(-(2 ** 31), 7) },
  { dtype: 'U32', type: 'uint32', stored: Uint32Array.of(2 ** 32 - 1) },
  { dtype: 'I16', type: 'int16', stored: Int16Array.of(-32768, 7) },
  { dtype: 'U16', type: 'uint16', stored: Uint16Array.of(65535) },
  { dtype: 'I8', type: 'int8', stored: Int8Array.of(-128, 127) },
  { dtype: 'U8', type: 'uint8', stored: Uint8Array.of(255, 0) },
  { dtype: 'BOOL', type: 'bool', stored: Uint8Array.of(1, 0) },
];

const WITHOUT_DATA_TYPE = ['float64', 'bfloat16', 'int16', 'uint16'];

function checkTensor(tensor, { type, stored, values = stored }) {
  const shape = [stored.length];
  assert.equal(tensor.type, type);
  assert.deepEqual(tensor.shape, shape);
  assert.deepEqual(new Uint8Array(tensor.bytes), bytesOf(stored));
  assert.deepEqual(tensor.values, values);
  if (WITHOUT_DATA_TYPE.includes(type)) {
    fails(() => tensor.descriptor, /is not a data type of WebNN/);
  } else {
    assert.deepEqual(tensor.descriptor, { dataType: type === 'bool' ? 'uint8' : type, shape });
  }
}

test('safetensors: every type, also where elements lie on odd addresses', () => {
  for (const entry of TYPES) {
    const { dtype, stored } = entry;
    const end = 1 + stored.byteLength;
    const header = {
      values: { dtype, shape: [stored.length], data_offsets: [1, end] },
      first: { dtype: 'U8', shape: [], data_offsets: [0, 1] },
    };
    for (const padding of ['', ' ']) {
      const file = safetensors(JSON.stringify(header) + padding, Uint8Array.of(42, ...bytesOf(stored)));
      const { tensors, metadata } = parseSafetensors(file);
      assert.deepEqual([...tensors.keys()], ['first', 'values']);
      assert.deepEqual(metadata, {});
      checkTensor(tensors.get('values'), entry);
    }
  }
});

test('safetensors: metadata, scalars, empty tensors, an empty file of tensors', () => {
  const { metadata, tensors } = parseSafetensors(
    safetensors(
      {
        __metadata__: { accuracy: '0.99' },
        empty: { dtype: 'F32', shape: [0, 3], data_offsets: [0, 0] },
        scalar: { dtype: 'F32', shape: [], data_offsets: [0, 4] },
      },
      bytesOf(Float32Array.of(2)),
    ),
  );
  assert.deepEqual(metadata, { accuracy: '0.99' });
  assert.deepEqual(tensors.get('empty')?.values, new Float32Array());
  assert.deepEqual(tensors.get('scalar')?.values, Float32Array.of(2));
  assert.equal(parseSafetensors(safetensors({})).tensors.size, 0);
});

test('safetensors: a file cut anywhere is an error', () => {
  const whole = safetensors({ a: { dtype: 'F32', shape: [2], data_offsets: [0, 8] } }, new Uint8Array(8));
  assert.equal(parseSafetensors(whole).tensors.size, 1);
  for (let length = 0; length < whole.length; length++) {
    fails(() => parseSafetensors(whole.subarray(0, length), 'cut'), /^cut: truncated: /);
  }
});

test('safetensors: what does not fit together is an error', () => {
  const four = new Uint8Array(4);
  const one =
    (entry, data = four) =>
    () =>
      parseSafetensors(safetensors({ a: entry }, data));
  const good = { dtype: 'F32', shape: [1], data_offsets: [0, 4] };
  one(good)();
  fails(() => parseSafetensors(new Uint8Array(16).fill(255)), /not a safetensors file/);
  fails(() => parseSafetensors(safetensors('{')), /header is not JSON/);
  for (const header of ['[]', 'null', '3']) {
    fails(() => parseSafetensors(safetensors(header)), /not a JSON object/);
  }
  fails(one(null), /"a": data type undefined, expected one of F64/);
  fails(one({ ...good, dtype: 'F8' }), /data type "F8"/);
  fails(one({ ...good, dtype: 'toString' }), /data type "toString"/);
  fails(one({ ...good, shape: [-1] }), /shape \[-1\] is not a shape/);
  fails(one({ ...good, shape: '1' }), /is not a shape/);
  fails(one({ ...good, shape: [2] }), /4 bytes, expected 8 for F32 \[2\]/);
  fails(one({ ...good, data_offsets: [0] }), /not two byte offsets/);
  fails(one({ ...good, data_offsets: [4, 0] }), /-4 bytes, expected 4/);
  fails(one({ ...good, data_offsets: [4, 8] }, new Uint8Array(8)), /starts at byte 4, expected 0/);
  fails(one(good, new Uint8Array(5)), /1 bytes after the last tensor/);
});

test('files are named in errors', async (t) => {
  const folder = temporaryFolder(t, { noise: 'short' });
  const file = path.join(folder, 'noise');
  await assert.rejects(readSafetensors(file), (error) => error instanceof FormatError && error.message.startsWith(`${file}: `));
  await assert.rejects(readSafetensors(path.join(folder, 'absent')), { code: 'ENOENT' });
});

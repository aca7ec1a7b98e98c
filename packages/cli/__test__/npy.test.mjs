import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'node:test';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { arrayFromNumbers, arrayOf, bytesOf, convert, halfFromNumber, numberFromHalf, numbersOf } from 'webnn-node-text/elements';
import { FormatError } from '../lib/errors.mjs';
import { formatNpy, parseNpy, readNpy, readNpz } from '../lib/npy.mjs';
import { file } from './command.mjs';

/** All types of the files that NumPy wrote: 0 to 5 in two rows. */
const TYPES = ['float64', 'float32', 'float16', 'int64', 'uint64', 'int32', 'uint32', 'int16', 'uint16', 'int8', 'uint8'];

const fails = (run, message) =>
  assert.throws(run, (error) => {
    assert.ok(error instanceof FormatError, String(error));
    assert.match(error.message, message);
    return true;
  });

function npy(dictionary, data, version = 1) {
  const text = new TextEncoder().encode(`${dictionary}\n`);
  const length = version === 1 ? new Uint16Array([text.length]) : new Uint32Array([text.length]);
  return Uint8Array.from([0x93, ...Buffer.from('NUMPY'), version, 0, ...bytesOf(length), ...text, ...data]);
}

const dictionary = (descr, shape, order = 'False') => `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': ${shape}, }`;

test('files of NumPy are read', async () => {
  for (const dataType of TYPES) {
    const tensor = await readNpy(file(`${dataType}.npy`));
    assert.equal(tensor.dataType, dataType);
    assert.deepEqual(tensor.shape, [2, 3]);
    assert.deepEqual(Array.from(numbersOf(tensor)), [0, 1, 2, 3, 4, 5], dataType);
  }
  assert.deepEqual(await readNpy(file('bool.npy')), { dataType: 'bool', shape: [3], data: Uint8Array.of(1, 0, 1) });
  assert.deepEqual(await readNpy(file('scalar.npy')), { dataType: 'float32', shape: [], data: Float32Array.of(7) });
  assert.deepEqual(await readNpy(file('empty.npy')), { dataType: 'float32', shape: [0, 3], data: new Float32Array() });
});

test('what is written has the bytes that NumPy writes', async () => {
  for (const name of [...TYPES, 'bool', 'scalar', 'empty']) {
    const bytes = await readFile(file(`${name}.npy`));
    assert.ok(bytes.equals(formatNpy(parseNpy(bytes))), name);
  }
});

test('archives: the only array, and one by its name', async () => {
  const ids = { dataType: 'int64', shape: [2, 3], data: BigInt64Array.from([0n, 1n, 2n, 3n, 4n, 5n]) };
  assert.deepEqual(await readNpz(file('one.npz')), ids);
  assert.deepEqual(await readNpz(file('one.npz'), 'ids'), ids);
  assert.deepEqual(await readNpz(file('two.npz'), 'ids'), ids);
  assert.deepEqual((await readNpz(file('two.npz'), 'mask')).data, new Float32Array(6).fill(1));
  await assert.rejects(readNpz(file('two.npz')), /2 arrays \(ids, mask\), expected one, or a name as in .*two\.npz:NAME/);
  await assert.rejects(readNpz(file('two.npz'), 'x'), /no array is named "x"; there are: ids, mask/);
  await assert.rejects(readNpz(file('int8.npy')), { name: 'FormatError', message: /not a \.npz archive/ });
});

test('orders of bytes and elements that are not read are refused', async () => {
  await assert.rejects(readNpy(file('fortran.npy')), { name: 'FormatError', message: /Fortran order/ });
  await assert.rejects(readNpy(file('big-endian.npy')), { name: 'FormatError', message: /data type >f4/ });
});

test('all versions and shapes', () => {
  for (const version of [1, 2, 3]) {
    assert.deepEqual(parseNpy(npy(dictionary('<f4', '(2,)'), bytesOf(Float32Array.of(1.5, -2)), version)).data, Float32Array.of(1.5, -2));
  }
  const shapeOf = (tuple, count) => parseNpy(npy(dictionary('|u1', tuple), new Uint8Array(count))).shape;
  assert.deepEqual(shapeOf('()', 1), []);
  assert.deepEqual(shapeOf('(2, 3)', 6), [2, 3]);
});

test('a file cut anywhere is an error', () => {
  for (const version of [1, 2]) {
    const whole = npy(dictionary('<f4', '(2,)'), new Uint8Array(8), version);
    for (let length = 0; length < whole.length; length++) {
      fails(() => parseNpy(whole.subarray(0, length), 'cut'), /^cut: (truncated: |not a \.npy file)/);
    }
  }
});

test('what does not fit together is an error', () => {
  const parse =
    (text, count = 4, version = 1) =>
    () =>
      parseNpy(npy(text, new Uint8Array(count), version));
  fails(parse('{}'), /lacks descr, fortran_order or shape/);
  fails(parse(dictionary('<f4', '(1,)'), 4, 9), /version 9, expected 1, 2 or 3/);
  fails(parse(dictionary('<f4', '(1,)'), 5), /5 bytes of data, expected 4 for float32 \[1\]/);
  fails(parse(dictionary('toString', '(1,)')), /data type toString/);
});

test('files are named in errors', async (t) => {
  const folder = temporaryFolder(t, { noise: 'short' });
  const noise = path.join(folder, 'noise');
  await assert.rejects(readNpy(noise), (error) => error instanceof FormatError && error.message.startsWith(`${noise}: `));
  await assert.rejects(readNpy(path.join(folder, 'absent')), { code: 'ENOENT' });
});

test('float16: every number of it survives, others become the nearest', () => {
  for (let bits = 0; bits < 0x10000; bits++) {
    const value = numberFromHalf(bits);
    if (!Number.isNaN(value)) assert.equal(halfFromNumber(value), bits);
  }
  const cases = [
    [NaN, 0x7e00],
    [65519.99, 0x7bff],
    [65520, 0x7c00],
    [-1e300, 0xfc00],
    // Halfway: to the even neighbour.
    [1 + 2 ** -11, 0x3c00],
    [1 + 3 * 2 ** -11, 0x3c02],
    [2 ** -25, 0],
    [3 * 2 ** -25, 2],
    // Below a power of two, into which it is rounded.
    [2 - 2 ** -12, 0x4000],
    [2 ** -14 - 2 ** -26, 0x0400],
    [2 ** -1074, 0],
  ];
  for (const [value, bits] of cases) assert.equal(halfFromNumber(value), bits, String(value));
});

test('conversions keep values or are refused', () => {
  const tensor = (dataType, ...numbers) => ({ dataType, shape: [numbers.length], data: arrayFromNumbers(dataType, numbers) });
  assert.deepEqual(convert(tensor('float64', 0.1), 'float32').data, Float32Array.of(0.1));
  assert.deepEqual(convert(tensor('int64', 1, -2), 'int8').data, Int8Array.of(1, -2));
  assert.deepEqual(convert(tensor('bool', 1, 0), 'int64').data, BigInt64Array.of(1n, 0n));
  assert.deepEqual(Array.from(numbersOf(convert(tensor('int32', 3), 'float16'))), [3]);
  const same = { dataType: 'uint8', shape: [1], data: arrayOf('uint8', 1) };
  assert.equal(convert(same, 'uint8'), same);
  assert.throws(() => convert(tensor('int32', 300), 'uint8'), /the int32 value 300 is not in the range of uint8, 0 to 255/);
  assert.throws(() => convert(tensor('float32', 1), 'int32'), /data type float32, expected int32/);
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import vm from 'node:vm';

import { typeError } from '../lib/exceptions.mjs';
import { require } from './helpers.mjs';

const webidl = require('../../lib/webidl.js');
const { defineSlots } = require('../../lib/slots.js');
const { WeakCollection } = require('../../lib/weak-collection.js');

const INTEGERS = [
  // converter, value, result or undefined for TypeError
  ['enforcedUnsignedLong', 0, 0],
  ['enforcedUnsignedLong', 4294967295, 4294967295],
  ['enforcedUnsignedLong', 4294967295.9, 4294967295],
  ['enforcedUnsignedLong', 4294967296, undefined],
  ['enforcedUnsignedLong', -0.9, 0],
  ['enforcedUnsignedLong', -1, undefined],
  ['enforcedUnsignedLong', 1.7, 1],
  ['enforcedUnsignedLong', '7', 7],
  ['enforcedUnsignedLong', ' 0x10 ', 16],
  ['enforcedUnsignedLong', '', 0],
  ['enforcedUnsignedLong', null, 0],
  ['enforcedUnsignedLong', true, 1],
  ['enforcedUnsignedLong', [3], 3],
  ['enforcedUnsignedLong', undefined, undefined],
  ['enforcedUnsignedLong', NaN, undefined],
  ['enforcedUnsignedLong', Infinity, undefined],
  ['enforcedUnsignedLong', -Infinity, undefined],
  ['enforcedUnsignedLong', 'x', undefined],
  ['enforcedUnsignedLong', {}, undefined],
  ['enforcedUnsignedLong', 1n, undefined],
  ['enforcedUnsignedLong', Symbol('s'), undefined],
  ['enforcedUnsignedLong', { valueOf: () => 5 }, 5],
  ['enforcedUnsignedLong', { valueOf: () => 5n }, undefined],
  ['enforcedLong', -2147483648.9, -2147483648],
  ['enforcedLong', -2147483649, undefined],
  ['enforcedLong', 2147483647, 2147483647],
  ['enforcedLong', 2147483648, undefined],
  ['enforcedUnsignedLongLong', 2 ** 53 - 1, 2 ** 53 - 1],
  ['enforcedUnsignedLongLong', 2 ** 53, undefined],
  ['unsignedLong', -1, 4294967295],
  ['unsignedLong', 4294967297.5, 1],
  ['unsignedLong', NaN, 0],
  ['unsignedLong', Infinity, 0],
  ['unsignedLong', 1n, undefined],
  ['long', 4294967295, -1],
  ['long', 2147483648, -2147483648],
  ['long', -Infinity, 0],
  ['unsignedLongLong', -1, 18446744073709551615],
  ['unsignedLongLong', 2 ** 64 + 4096, 4096],
  ['unsignedLongLong', NaN, 0],
  ['double', 1.5, 1.5],
  ['double', -0, -0],
  ['double', NaN, undefined],
  ['double', Infinity, undefined],
  ['double', 1n, undefined],
  ['unrestrictedDouble', NaN, NaN],
  ['unrestrictedDouble', -Infinity, -Infinity],
  ['unrestrictedDouble', Symbol.iterator, undefined],
  ['float', 0.1, Math.fround(0.1)],
  ['float', 3.5e38, undefined],
  ['float', NaN, undefined],
  ['float', 1e-60, 0],
  ['boolean', 'false', true],
  ['boolean', 0, false],
  ['boolean', {}, true],
  ['domString', 'a\uD800', 'a\uD800'],
  ['domString', 12, '12'],
  ['domString', Symbol('s'), undefined],
  ['usvString', 'a\uD800b', 'a\uFFFDb'],
  ['usvString', '\uD83D\uDE00', '\uD83D\uDE00'],
  ['usvString', null, 'null'],
  ['bigintOrDouble', 2n ** 70n, 2n ** 70n],
  ['bigintOrDouble', NaN, NaN],
  ['bigintOrDouble', -0, -0],
  ['bigintOrDouble', '0x10', 16],
  ['bigintOrDouble', true, 1],
  ['bigintOrDouble', undefined, NaN],
  ['bigintOrDouble', { valueOf: () => 3n }, 3n],
  ['bigintOrDouble', Object(4n), 4n],
  ['bigintOrDouble', Symbol('s'), undefined],
];

for (const [name, value, expected] of INTEGERS) {
  // JSON, because runtimes write lone surrogates in different ways.
  test(`${name} of ${typeof value === 'string' ? JSON.stringify(value) : inspect(value)}`, () => {
    if (expected === undefined) {
      assert.throws(() => webidl[name](value, 'here'), TypeError);
    } else {
      assert.ok(Object.is(webidl[name](value, 'here'), expected));
    }
  });
}

test('messages say where, what came and what was expected', () => {
  assert.throws(
    () => webidl.enforcedUnsignedLong(-1, 'conv2d: options.groups'),
    typeError(/^conv2d: options\.groups is -1, expected an integer from 0 to 4294967295$/),
  );
  assert.throws(() => webidl.sequence(webidl.double)([1, Infinity], 'x'), typeError(/^x\[1\] is Infinity, expected a finite number$/));
  assert.throws(() => webidl.enumeration(['a', 'b'])('\u202Ec', 'x'), typeError(/^x is "c", expected one of "a", "b"$/));
});

test('errors of conversions called by the caller pass unchanged', () => {
  const own = new RangeError('mine');
  const hostile = {
    valueOf() {
      throw own;
    },
  };
  for (const name of ['enforcedUnsignedLong', 'double', 'float', 'bigintOrDouble', 'unsignedLong']) {
    assert.throws(
      () => webidl[name](hostile, 'x'),
      (error) => error === own,
    );
  }
});

test('sequence follows the iterator protocol and does not close it', () => {
  const log = [];
  const iterable = {
    get [Symbol.iterator]() {
      log.push('iterator');
      return () => {
        let i = 0;
        return {
          get next() {
            log.push('next');
            return () => ({ done: i === 2, value: [1, -1][i++] });
          },
          return() {
            log.push('return');
            return {};
          },
        };
      };
    },
  };
  assert.deepEqual(webidl.sequence(webidl.double)(iterable, 'x'), [1, -1]);
  assert.deepEqual(log, ['iterator', 'next']);
  assert.throws(() => webidl.sequence(webidl.enforcedUnsignedLong)(iterable, 'x'), TypeError);
  assert.deepEqual(log, ['iterator', 'next', 'iterator', 'next']);
});

test('sequence accepts any iterable object and nothing else', () => {
  const numbers = webidl.sequence(webidl.enforcedUnsignedLong);
  assert.deepEqual(numbers(new Set([1, 2]), 'x'), [1, 2]);
  assert.deepEqual(numbers(new Uint8Array([3]), 'x'), [3]);
  assert.deepEqual(
    numbers(
      Object.assign(() => {}, { [Symbol.iterator]: [][Symbol.iterator] }),
      'x',
    ),
    [],
  );
  assert.deepEqual(numbers(vm.runInNewContext('[4, 5]'), 'x'), [4, 5]);
  const sparse = [];
  sparse.length = 1;
  assert.throws(() => numbers(sparse, 'x'), typeError(/x\[0\] is (NaN|undefined)/));
  for (const bad of ['12', 12, null, undefined, {}, { length: 0 }, { [Symbol.iterator]: null }]) {
    assert.throws(() => numbers(bad, 'x'), typeError(/expected an iterable object/));
  }
  assert.throws(() => numbers({ [Symbol.iterator]: 1 }, 'x'), TypeError);
  assert.throws(() => numbers({ [Symbol.iterator]: () => 1 }, 'x'), TypeError);
  assert.throws(() => numbers({ [Symbol.iterator]: () => ({}) }, 'x'), TypeError);
  assert.throws(() => numbers({ [Symbol.iterator]: () => ({ next: () => 1 }) }, 'x'), TypeError);
});

test('a union of number and sequence looks for an iterator on objects only', () => {
  const splits = webidl.elementOrSequence(webidl.enforcedUnsignedLong);
  assert.equal(splits(2, 'x'), 2);
  assert.equal(splits('3', 'x'), 3);
  assert.equal(splits({ valueOf: () => 4 }, 'x'), 4);
  assert.deepEqual(splits([1, 2], 'x'), [1, 2]);
  assert.throws(() => splits(-1, 'x'), TypeError);
  assert.throws(() => splits([-1], 'x'), TypeError);
});

test('record reads enumerable own properties in order', () => {
  const log = [];
  const target = { b: 1, 2: 2, a: 3 };
  Object.defineProperty(target, 'hidden', { value: 4, enumerable: false });
  Object.setPrototypeOf(target, { inherited: 5 });
  const proxy = new Proxy(target, {
    ownKeys(t) {
      log.push('ownKeys');
      return Reflect.ownKeys(t);
    },
    getOwnPropertyDescriptor(t, key) {
      log.push(`descriptor ${String(key)}`);
      return Reflect.getOwnPropertyDescriptor(t, key);
    },
    get(t, key) {
      log.push(`get ${String(key)}`);
      return t[key];
    },
  });
  const result = webidl.record(webidl.double)(proxy, 'x');
  assert.deepEqual(
    [...result],
    [
      ['2', 2],
      ['b', 1],
      ['a', 3],
    ],
  );
  assert.deepEqual(log, ['ownKeys', 'descriptor 2', 'get 2', 'descriptor b', 'get b', 'descriptor a', 'get a', 'descriptor hidden']);
});

test('record keys are USVStrings', () => {
  const numbers = webidl.record(webidl.double);
  assert.deepEqual(
    [...numbers({ '\uD800': 1, x: 2, '\uDBFF': 3 }, 'r')],
    [
      ['\uFFFD', 3],
      ['x', 2],
    ],
  );
  assert.throws(() => numbers({ [Symbol('s')]: 1 }, 'r'), TypeError);
  const hiddenSymbol = Object.defineProperty({}, Symbol('s'), { value: 1, enumerable: false });
  assert.equal(numbers(hiddenSymbol, 'r').size, 0);
  assert.deepEqual([...numbers(Object.create(null, { k: { value: 1, enumerable: true } }), 'r')], [['k', 1]]);
  for (const bad of [1, 'ab', undefined, null, true]) {
    assert.throws(() => numbers(bad, 'r'), typeError(/expected an object/));
  }
  assert.throws(() => numbers({ a: NaN }, 'r'), typeError(/^r\["a"\] is NaN/));
});

test('dictionary reads each member once, in order, and applies defaults', () => {
  const convert = webidl.dictionary([
    { name: 'z', convert: webidl.double, default: 7 },
    { name: 'a', convert: webidl.boolean },
    { name: 'b', convert: webidl.usvString, required: true },
  ]);
  const log = [];
  const source = {};
  for (const name of ['a', 'b', 'z']) {
    Object.defineProperty(source, name, {
      get() {
        log.push(name);
        return { a: undefined, b: 'B', z: undefined }[name];
      },
    });
  }
  assert.deepEqual({ ...convert(source, 'd') }, { z: 7, b: 'B' });
  assert.deepEqual(log, ['z', 'a', 'b']);
  assert.throws(() => convert(undefined, 'd'), typeError(/^d\.b is required$/));
  assert.throws(() => convert(null, 'd'), typeError(/^d\.b is required$/));
  for (const bad of [1, 'b', true, 1n, Symbol('s')]) {
    assert.throws(() => convert(bad, 'd'), typeError(/^d is .*, expected an object$/));
  }
  assert.deepEqual(
    {
      ...convert(
        Object.assign(() => {}, { b: 1 }),
        'd',
      ),
    },
    { z: 7, b: '1' },
  );
});

test('bufferSource accepts buffers and views of every realm', () => {
  const cases = {
    'new ArrayBuffer(8)': 'ArrayBuffer',
    'new SharedArrayBuffer(8)': 'SharedArrayBuffer',
    'new Uint8Array(8)': 'Uint8Array',
    'new Uint8ClampedArray(8)': 'Uint8ClampedArray',
    'new BigInt64Array(1)': 'BigInt64Array',
    'new DataView(new ArrayBuffer(8))': 'DataView',
    'new Float32Array(new SharedArrayBuffer(8))': 'Float32Array',
  };
  for (const [source, kind] of Object.entries(cases)) {
    for (const value of [vm.runInThisContext(source), vm.runInNewContext(source)]) {
      assert.equal(webidl.bufferSource(value, 'x'), kind);
      if (kind !== 'DataView') {
        assert.equal(webidl.byteLengthOf(value, kind), 8);
        assert.equal(webidl.bytesOf(value, kind).length, 8);
      }
    }
  }
});

test('bufferSource is not fooled', () => {
  const impostors = [
    {},
    [1, 2],
    'bytes',
    null,
    undefined,
    1,
    Object.create(ArrayBuffer.prototype),
    Object.create(Uint8Array.prototype),
    new Proxy(new ArrayBuffer(8), {}),
    new Proxy(new Uint8Array(8), {}),
    { [Symbol.toStringTag]: 'Uint8Array', byteLength: 8 },
  ];
  for (const value of impostors) {
    assert.throws(() => webidl.bufferSource(value, 'x'), typeError(/^x is .*, expected a typed array/));
  }
  const disguised = new Uint16Array(4);
  Object.defineProperties(disguised, {
    byteLength: { value: 1000 },
    buffer: { value: new ArrayBuffer(1000) },
    constructor: { value: Uint8Array },
    [Symbol.toStringTag]: { value: 'Uint8Array' },
  });
  Object.setPrototypeOf(disguised, Uint8Array.prototype);
  assert.equal(webidl.bufferSource(disguised, 'x'), 'Uint16Array');
  assert.equal(webidl.byteLengthOf(disguised, 'Uint16Array'), 8);
  assert.equal(webidl.bytesOf(disguised, 'Uint16Array').buffer.byteLength, 8);
});

test('bytes are those of the view', () => {
  const buffer = new Uint8Array([0, 1, 2, 3, 4, 5, 6, 7]).buffer;
  assert.deepEqual([...webidl.bytesOf(new Uint16Array(buffer, 2, 2), 'Uint16Array')], [2, 3, 4, 5]);
});

test('resizable and growable buffers are rejected', () => {
  const resizable = new ArrayBuffer(8, { maxByteLength: 16 });
  const growable = new SharedArrayBuffer(8, { maxByteLength: 16 });
  for (const value of [resizable, growable, new Uint8Array(resizable), new Float32Array(growable), new DataView(resizable)]) {
    assert.throws(() => webidl.bufferSource(value, 'x'), typeError(/can change its length/));
  }
});

test('detached buffers have no bytes', () => {
  const view = new Uint8Array(8);
  const { buffer } = view;
  structuredClone(buffer, { transfer: [buffer] });
  assert.equal(webidl.byteLengthOf(buffer, webidl.bufferSource(buffer, 'x')), 0);
  assert.equal(webidl.byteLengthOf(view, webidl.bufferSource(view, 'x')), 0);
});

test('slots are a brand', () => {
  class Thing {}
  const slots = defineSlots();
  const state = {};
  const thing = slots.create(Thing, state);
  assert.equal(Object.getPrototypeOf(thing), Thing.prototype);
  assert.equal(slots.get(thing), state);
  for (const impostor of [new Thing(), Object.create(thing), new Proxy(thing, {}), {}, null, undefined, 1, 'x']) {
    assert.equal(slots.get(impostor), undefined);
  }
  assert.equal(defineSlots().get(thing), undefined);
  assert.throws(() => structuredClone(thing), { name: 'DataCloneError' });
  class Derived extends Thing {}
  assert.equal(Object.getPrototypeOf(slots.create(Thing, state, Derived)), Derived.prototype);
});

test('a weak collection gives its members in order, once', () => {
  const collection = new WeakCollection();
  const members = [{}, {}, {}];
  members.forEach((member) => collection.add(member));
  assert.deepEqual(collection.drain(), members);
  assert.deepEqual(collection.drain(), []);
});

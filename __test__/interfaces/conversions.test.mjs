/** Conversion of every argument and dictionary member of every operation, drawn from the IDL. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { inspect } from 'node:util';

import { rejects } from '../lib/exceptions.mjs';
import { newBuilder, webnn } from './helpers.mjs';
import { allOperations, dictionaryMembers, enumerations, interfaces, typeOf } from './idl.mjs';
import { observed, planOf } from './observed.mjs';
import { defined } from '../lib/types.mjs';

const api = webnn();

/** One object of each interface; the builder can still build. */
async function instances() {
  const { context, builder, a } = await newBuilder();
  const tensor = await context.createTensor({ dataType: 'float32', shape: [1], readable: true, writable: true });
  const other = new api.MLGraphBuilder(context);
  const x = other.input('x', { dataType: 'float32', shape: [1] });
  const graph = await other.build({ y: other.relu(x) });
  return { ML: api.ml, MLContext: context, MLGraph: graph, MLGraphBuilder: builder, MLOperand: a, MLTensor: tensor };
}

const contexts = [];
after(() => contexts.forEach((context) => context.destroy()));

async function newObjects() {
  const objects = await instances();
  contexts.push(objects.MLContext);
  return objects;
}

/** The operation as a function of its arguments. */
function callable(operation, objects) {
  return operation.name === 'constructor'
    ? (args) => Reflect.construct(api[operation.interface], args)
    : (args) => Reflect.apply(objects[operation.interface][operation.name], objects[operation.interface], args);
}

/** Whether an argument is a plain string because an object in its place would mean another overload. */
const isPlainString = ({ isOverloaded }, type) => isOverloaded && type.kind === 'enum';

/** The plan of a whole call. */
const planOfCall = (operation) => operation.parameters.flatMap(({ name, type }) => planOf(type, name, isPlainString(operation, type)));

/** Arguments for a call, which log; one may be replaced. */
function argumentsOf(operation, objects, log, replaced) {
  return operation.parameters.map(({ name, type }) => observed(type, name, { log, objects, replaced, isPlain: isPlainString(operation, type) }));
}

/** What comes of a call: the error that it throws or rejects with, undefined if none. */
async function errorOf({ isPromise }, call) {
  let result;
  try {
    result = call();
  } catch (error) {
    assert.ok(!isPromise, 'a promise operation threw');
    return error;
  }
  if (!isPromise) {
    return undefined;
  }
  assert.ok(result instanceof Promise);
  return result.then(
    () => undefined,
    (error) => error,
  );
}

/** The events before the conversion of a path. */
function eventsBefore(plan, path) {
  const end = plan.findIndex((step) => step.path === path);
  return visible(plan.slice(0, end));
}

const visible = (plan) => plan.map(({ event }) => event).filter((event) => event !== null);

/** What a type does not accept; undefined among it where it does not mean a missing member. */
function badValues({ kind, name, isEnforced, element }, objects) {
  const noNumbers = ['x', {}, 1n, Symbol('s')];
  switch (kind) {
    case 'integer': {
      if (!isEnforced) {
        return [1n, Symbol('s')];
      }
      const [low, high] = { 'unsigned long': [0, 2 ** 32 - 1], long: [-(2 ** 31), 2 ** 31 - 1] }[name];
      return [low - 1, high + 1, NaN, Infinity, -Infinity, ...noNumbers, undefined];
    }
    case 'double':
      return [NaN, Infinity, -Infinity, ...noNumbers, undefined];
    case 'number':
    case 'string':
      return [Symbol('s')];
    case 'enum':
      return ['', 'none of them', defined(enumerations.get(name))[0].toUpperCase(), null, 1, {}, Symbol('s'), undefined];
    case 'sequence':
      return [1, 'ab', true, null, {}, 1n, Symbol('s'), { [Symbol.iterator]: 1 }, undefined];
    case 'one-or-sequence':
      return [...badValues(element, objects), { [Symbol.iterator]: 1 }];
    case 'record':
      return [1, 'ab', true, null, 1n, Symbol('s'), { key: 1 }, { [Symbol('s')]: 1 }, undefined];
    case 'dictionary':
      return [1, 'ab', true, 1n, Symbol('s')];
    case 'buffer':
      return [1, 'ab', null, {}, [1], Object.create(Uint8Array.prototype), new ArrayBuffer(4, { maxByteLength: 8 }), undefined];
    case 'interface': {
      const real = objects[name];
      const others = Object.values(objects).filter((object) => object !== real);
      return [1, 'ab', null, {}, Object.create(real), new Proxy(real, {}), api[name].prototype, ...others, undefined];
    }
    default:
      return [];
  }
}

/** What a type accepts besides the plain values, from its limits to what it converts. */
function goodValues({ kind, name, element }, isPlain) {
  switch (kind) {
    case 'integer': {
      const [low, high] = { 'unsigned long': [0, 2 ** 32 - 1], long: [-(2 ** 31), 2 ** 31 - 1] }[name];
      return [low, low - 0.9, high, high + 0.9, -0, '7', ' 0x10 ', '', null, true, [3], { valueOf: () => 2 }];
    }
    case 'double':
      return [-0, 1.5, Number.MIN_VALUE, 3.4e38, '1e3', '', null, false, [0.5]];
    case 'number':
      return [NaN, Infinity, -Infinity, 2 ** 53, 2n ** 70n, -(2n ** 63n), Object(4n), { valueOf: () => 3n }, '0x10', null, {}];
    case 'string':
      return ['', '\uD800', 'a\u0000b', 12, null, {}, ['x']];
    case 'boolean':
      return [0, '', 'false', NaN, null, {}, Symbol('s'), 0n];
    case 'enum':
      return [...defined(enumerations.get(name)), ...(isPlain ? [] : [[defined(enumerations.get(name))[0]]])];
    case 'sequence':
    case 'one-or-sequence':
      // Only emptiness is good for every element type.
      return [[], new Set(), new Uint8Array(), (function* () {})(), ...(kind === 'sequence' ? [] : goodValues(element))];
    case 'record':
      return [{}, [], () => {}, Object.create({ inherited: 1 }), Object.defineProperty({}, 'hidden', { value: 1 })];
    case 'buffer':
      return [
        ...[ArrayBuffer, SharedArrayBuffer, Uint8Array, Uint8ClampedArray, Int16Array, Float64Array, BigInt64Array].map((Buffer) => new Buffer(4)),
        new DataView(new ArrayBuffer(4)),
        new Uint8Array(new SharedArrayBuffer(4)),
      ];
    default:
      return [];
  }
}

/** Whether a path is another one or one of its parts; that a member was read is no part of it. */
function isPartOf(path, whole) {
  return path.startsWith(whole) && /^($|\[|\.| get$| descriptor$)/.test(path.slice(whole.length));
}

/** A value whose conversion throws, for the types that run a caller's code. */
function throwingValue({ kind }, error) {
  const fail = () => {
    throw error;
  };
  switch (kind) {
    case 'integer':
    case 'double':
    case 'number':
    case 'string':
    case 'enum':
      return { [Symbol.toPrimitive]: fail };
    case 'sequence':
    case 'one-or-sequence':
      return Object.defineProperty({}, Symbol.iterator, { get: fail });
    case 'record':
    case 'dictionary':
      return new Proxy({}, { get: fail, ownKeys: fail });
    default:
      return undefined;
  }
}

for (const operation of allOperations()) {
  const title = `${operation.interface} ${operation.name}(${operation.parameters.map(({ name }) => name).join(', ')})`;
  const plan = planOfCall(operation);
  const places = plan.filter(({ type }) => type !== undefined);

  test(`${title} converts everything once and in order, and looks at no further argument`, async () => {
    const objects = await newObjects();
    const log = [];
    const further = new Proxy({}, { get: (_, key) => log.push(`further ${String(key)}`) });
    const args = [...argumentsOf(operation, objects, log), ...(operation.isOverloaded ? [] : [further])];
    const error = await errorOf(operation, () => callable(operation, objects)(args));
    // What the operation makes of such values does not matter here, but it says it as the draft does.
    assert.ok(error === undefined || error instanceof TypeError, `${error}`);
    assert.deepEqual(log, visible(plan));
  });

  if (places.length === 0) {
    continue;
  }

  test(`${title} refuses what its types do not accept, before it converts what follows`, async () => {
    const objects = await newObjects();
    const call = callable(operation, objects);
    for (const { path, type, isMember } of places) {
      for (const value of badValues(type, objects)) {
        if (value === undefined && isMember) {
          continue;
        }
        const log = [];
        const args = argumentsOf(operation, objects, log, { path, value });
        const error = await errorOf(operation, () => call(args));
        const place = `${path} of type ${type.name ?? type.kind} is ${inspect(value)}`;
        assert.ok(error !== undefined, `no error although ${place}`);
        assert.equal(Object.getPrototypeOf(error), TypeError.prototype, `${error} although ${place}`);
        // Events of the refused value itself, if any, are those of a caller's object, which these are not.
        assert.deepEqual(log, eventsBefore(plan, path), place);
        if (!operation.isOverloaded) {
          const subject = operation.name === 'constructor' ? operation.interface : operation.name;
          assert.ok(error.message.includes(`${subject}: ${path.replace(/[.[].*/, '')}`), `"${error.message}" for ${place}`);
        }
      }
    }
  });

  test(`${title} passes on what the caller's code throws`, async () => {
    const objects = await newObjects();
    const call = callable(operation, objects);
    for (const { path, type } of places) {
      const own = new RangeError('mine');
      const value = isPlainString(operation, type) ? undefined : throwingValue(type, own);
      if (value === undefined) {
        continue;
      }
      const log = [];
      const args = argumentsOf(operation, objects, log, { path, value });
      assert.equal(await errorOf(operation, () => call(args)), own, path);
      assert.deepEqual(log, eventsBefore(plan, path), path);
    }
  });

  test(`${title} accepts everything that its types accept`, async () => {
    const objects = await newObjects();
    const call = callable(operation, objects);
    for (const { path, type } of places) {
      const isPlain = isPlainString(operation, type);
      for (const value of goodValues(type, isPlain)) {
        const log = [];
        const args = argumentsOf(operation, objects, log, { path, value });
        const error = await errorOf(operation, () => call(args));
        // What the operation makes of the value is another matter; that the rest was converted says it was accepted.
        assert.ok(error === undefined || error instanceof TypeError, `${error}`);
        assert.deepEqual(log, visible(plan.filter((step) => !isPartOf(step.path, path))), `${path} is ${inspect(value)}`);
      }
    }
  });

  const required = plan
    .filter(({ type }) => type?.kind === 'dictionary')
    .flatMap(({ path, type }) =>
      dictionaryMembers(type.name)
        .filter((member) => member.required)
        .map(({ name }) => `${path}.${name}`),
    );
  if (required.length > 0) {
    test(`${title} requires ${required.join(' and ')}`, async () => {
      const objects = await newObjects();
      const call = callable(operation, objects);
      for (const path of required) {
        const args = argumentsOf(operation, objects, [], { path, value: undefined });
        const error = await errorOf(operation, () => call(args));
        assert.ok(error instanceof TypeError, `${error}`);
        assert.equal(error.message, `${operation.name}: ${path} is required`);
      }
    });
  }
}

for (const [name, members] of interfaces) {
  for (const attribute of members.filter(({ type }) => type === 'attribute')) {
    test(`${name} ${attribute.name} has the type of the IDL`, async () => {
      const object = (await newObjects())[name];
      const value = object[attribute.name];
      const type = typeOf(attribute);
      assert.equal(object[attribute.name], value, 'the same value each time');
      switch (type.kind) {
        case 'FrozenArray':
          assert.ok(Array.isArray(value) && Object.isFrozen(value));
          assert.ok(value.every((item) => Number.isInteger(item)));
          break;
        case 'Promise':
          assert.ok(value instanceof Promise);
          break;
        case 'boolean':
          assert.equal(typeof value, 'boolean');
          break;
        case 'enum':
          assert.ok(defined(enumerations.get(defined(type.name))).includes(value));
          break;
        default:
          assert.fail(`no check for the type ${type.kind}`);
      }
      assert.throws(
        () => {
          'use strict';
          object[attribute.name] = value;
        },
        TypeError,
        'it cannot be set',
      );
    });
  }
}

/** Checks a value that leaves the API against a dictionary of the IDL, whose members are all present, in order. */
function checkDictionary(value, name, path) {
  const members = dictionaryMembers(name);
  assert.equal(Object.getPrototypeOf(value), Object.prototype, path);
  assert.deepEqual(
    Object.keys(value),
    members.map((member) => member.name),
    path,
  );
  for (const { name: key, type } of members) {
    checkValue(value[key], type, `${path}.${key}`);
    const { configurable, enumerable, writable } = defined(Object.getOwnPropertyDescriptor(value, key));
    assert.deepEqual([configurable, enumerable, writable], [true, true, true], path);
  }
}

function checkValue(value, type, path) {
  switch (type.kind) {
    case 'dictionary':
      checkDictionary(value, type.name, path);
      break;
    case 'sequence':
      assert.ok(Array.isArray(value) && value.length > 0, path);
      value.forEach((item, index) => checkValue(item, type.element, `${path}[${index}]`));
      break;
    case 'enum':
      assert.ok(defined(enumerations.get(type.name)).includes(value), path);
      break;
    case 'integer':
      assert.ok(Number.isSafeInteger(value) && value >= 0, path);
      break;
    default:
      assert.fail(`${path}: no check for the type ${type.kind}`);
  }
}

test('opSupportLimits() has every member of its dictionaries, and no other', async () => {
  const { MLContext: context } = await newObjects();
  checkDictionary(context.opSupportLimits(), 'MLOpSupportLimits', 'limits');
});

test('lost gives the dictionary of the IDL', async () => {
  const { context } = await newBuilder();
  context.destroy();
  const info = await context.lost;
  assert.deepEqual(
    Object.keys(info),
    dictionaryMembers('MLContextLostInfo').map(({ name }) => name),
  );
  assert.equal(typeof info.message, 'string');
});

test('operations of promise type reject with too few arguments and with a wrong receiver', async () => {
  for (const operation of allOperations().filter(({ isPromise }) => isPromise)) {
    const method = api[operation.interface].prototype[operation.name];
    await rejects(() => Reflect.apply(method, undefined, []), TypeError);
  }
});

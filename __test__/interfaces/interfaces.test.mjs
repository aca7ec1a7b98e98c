/** The shape of the interfaces, compared with the IDL member by member. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parse } from 'webidl2';

import { exception, rejects, typeError } from '../lib/exceptions.mjs';
import * as namespace from '../../index.js';
import { newBuilder, webnn } from './helpers.mjs';
import { defined } from '../lib/types.mjs';

const api = webnn();

/** Attributes that this package adds to interfaces of the draft. */
const EXTENSIONS = { MLGraph: 'interface MLGraph { readonly attribute FrozenArray<DOMString> devices; };' };

const definitions = new Map();
for (const node of parse(readFileSync(new URL('../../spec/webnn.idl', import.meta.url), 'utf8'))) {
  if (node.type === 'interface') {
    definitions.set(node.name, [...(definitions.get(node.name) ?? []), ...node.members]);
  }
}
for (const [name, idl] of Object.entries(EXTENSIONS)) {
  definitions.get(name).push(...parse(idl)[0].members);
}

/** Number of arguments that an operation requires. */
const requiredCount = ({ arguments: parameters }) => parameters.filter(({ optional }) => !optional).length;

/** Overloads count once; the shortest gives the length. */
function operationsOf(members) {
  const lengths = new Map();
  for (const member of members.filter(({ type }) => type === 'operation')) {
    lengths.set(member.name, Math.min(lengths.get(member.name) ?? Infinity, requiredCount(member)));
  }
  return lengths;
}

async function instances() {
  const { context, builder, a } = await newBuilder();
  const tensor = await context.createTensor({ dataType: 'float32', shape: [2, 3] });
  const operand = builder.relu(a);
  const graph = await builder.build({ operand });
  return {
    ML: api.ml,
    MLContext: context,
    MLGraph: graph,
    MLGraphBuilder: builder,
    MLOperand: operand,
    MLTensor: tensor,
  };
}

test('the package exports the interfaces and the ml object, also to import statements', () => {
  const names = [...definitions.keys(), 'ml'].sort();
  assert.deepEqual(Object.keys(api).sort(), names);
  for (const name of names) {
    assert.equal(namespace[name], api[name]);
  }
});

for (const [name, members] of definitions) {
  const Interface = api[name];

  test(`${name} is an interface object`, () => {
    assert.equal(typeof Interface, 'function');
    assert.equal(Object.getPrototypeOf(Interface), Function.prototype);
    const constructor = members.find(({ type }) => type === 'constructor');
    assert.deepEqual(Object.getOwnPropertyDescriptors(Interface), {
      length: { value: constructor ? 1 : 0, writable: false, enumerable: false, configurable: true },
      name: { value: name, writable: false, enumerable: false, configurable: true },
      prototype: { value: Interface.prototype, writable: false, enumerable: false, configurable: false },
    });
    assert.throws(() => Interface(), TypeError);
    if (!constructor) {
      assert.throws(() => new Interface(), typeError(/^Illegal constructor/));
      assert.throws(() => new (class extends Interface {})(), typeError(/^Illegal constructor/));
    }
  });

  test(`${name}.prototype has the members of the IDL`, () => {
    const { prototype } = Interface;
    assert.equal(Object.getPrototypeOf(prototype), Object.prototype);
    assert.deepEqual(Object.getOwnPropertyDescriptor(prototype, Symbol.toStringTag), {
      value: name,
      writable: false,
      enumerable: false,
      configurable: true,
    });
    assert.deepEqual(Object.getOwnPropertyDescriptor(prototype, 'constructor'), {
      value: Interface,
      writable: true,
      enumerable: false,
      configurable: true,
    });
    const operations = operationsOf(members);
    const attributes = members.filter(({ type }) => type === 'attribute').map((member) => member.name);
    const expected = ['constructor', Symbol.toStringTag, ...operations.keys(), ...attributes];
    assert.deepEqual(new Set(Reflect.ownKeys(prototype)), new Set(expected));
  });

  for (const [operation, length] of operationsOf(members)) {
    test(`${name}.prototype.${operation} is an operation`, () => {
      const descriptor = defined(Object.getOwnPropertyDescriptor(Interface.prototype, operation));
      const { value, ...attributes } = descriptor;
      assert.deepEqual(attributes, { writable: true, enumerable: true, configurable: true });
      assert.equal(Object.getPrototypeOf(value), Function.prototype);
      assert.equal(value.name, operation);
      assert.equal(value.length, length);
      assert.deepEqual(Reflect.ownKeys(value).sort(), ['length', 'name']);
      assert.throws(() => new value(), /is not a constructor/);
    });

    test(`${name}.prototype.${operation} checks its receiver and the number of arguments`, async () => {
      const method = Interface.prototype[operation];
      const isPromise = members.some((member) => member.name === operation && member.idlType.generic === 'Promise');
      const failing = isPromise ? rejects : async (call, matcher) => assert.throws(call, matcher);
      const real = (await instances())[name];
      const args = new Array(length).fill({});
      for (const receiver of [undefined, null, 1, {}, Object.create(real), new Proxy(real, {}), Interface.prototype, globalThis]) {
        await failing(() => Reflect.apply(method, receiver, args), typeError(new RegExp(`${operation}: Illegal invocation`)));
      }
      for (let given = 0; given < length; given++) {
        await failing(
          () => Reflect.apply(method, real, args.slice(0, given)),
          typeError(new RegExp(`^${operation}: ${length} arguments? required, ${given} given$`)),
        );
      }
    });
  }

  for (const attribute of members.filter(({ type }) => type === 'attribute')) {
    test(`${name}.prototype.${attribute.name} is a read-only attribute`, async () => {
      const descriptor = defined(Object.getOwnPropertyDescriptor(Interface.prototype, attribute.name));
      const { get, ...rest } = descriptor;
      assert.deepEqual(rest, { set: undefined, enumerable: true, configurable: true });
      assert.ok(get);
      assert.equal(get.name, `get ${attribute.name}`);
      assert.equal(get.length, 0);
      const real = (await instances())[name];
      for (const receiver of [undefined, {}, Interface.prototype, new Proxy(real, {})]) {
        const call = () => Reflect.apply(get, receiver, []);
        if (attribute.idlType.generic === 'Promise') {
          await rejects(call, typeError(/Illegal invocation/));
        } else {
          assert.throws(call, typeError(/Illegal invocation/));
        }
      }
    });
  }

  test(`${name} objects belong to the interface and cannot be cloned`, async () => {
    const object = (await instances())[name];
    assert.equal(Object.getPrototypeOf(object), Interface.prototype);
    assert.equal(Object.prototype.toString.call(object), `[object ${name}]`);
    assert.deepEqual(Reflect.ownKeys(object), []);
    assert.ok(Object.isExtensible(object));
    assert.throws(() => structuredClone(object), exception('DataCloneError'));
    assert.throws(() => structuredClone({ nested: [object] }), exception('DataCloneError'));
    assert.throws(() => new MessageChannel().port1.postMessage(object), exception('DataCloneError'));
  });
}

test('attributes with arrays and promises give the same object each time', async () => {
  const { MLContext: context, MLGraph: graph, MLOperand: operand, MLTensor: tensor } = await instances();
  assert.equal(context.lost, context.lost);
  assert.ok(Array.isArray(graph.devices) && Object.isFrozen(graph.devices));
  assert.equal(graph.devices, graph.devices);
  for (const { shape } of [operand, tensor]) {
    assert.ok(Array.isArray(shape) && Object.isFrozen(shape));
    assert.deepEqual(shape, [2, 3]);
  }
  assert.equal(operand.shape, operand.shape);
  assert.equal(tensor.shape, tensor.shape);
});

test('MLGraphBuilder can be extended', async () => {
  const { MLContext: context } = await instances();
  class Derived extends api.MLGraphBuilder {
    #own = 1;
    get own() {
      return this.#own;
    }
  }
  const builder = new /** @type {any} */ (Derived)(context);
  assert.ok(builder instanceof Derived);
  assert.equal(builder.own, 1);
  assert.deepEqual(builder.input('x', { dataType: 'int8', shape: [1] }).shape, [1]);
  const withoutPrototype = function () {};
  withoutPrototype.prototype = 1;
  const fallback = Reflect.construct(api.MLGraphBuilder, [context], withoutPrototype);
  assert.equal(Object.getPrototypeOf(fallback), api.MLGraphBuilder.prototype);
});

test('MLGraphBuilder needs a context that is not lost', async () => {
  const { MLContext: context } = await instances();
  assert.throws(() => new api.MLGraphBuilder(), typeError(/1 argument required, 0 given/));
  for (const bad of [undefined, null, {}, Object.create(context), api.ml]) {
    assert.throws(() => new api.MLGraphBuilder(bad), typeError(/context is .*, expected an MLContext/));
  }
  assert.throws(() => new api.MLGraphBuilder(Promise.resolve(context)), typeError(/context is a promise, expected an MLContext/));
  context.destroy();
  assert.throws(() => new api.MLGraphBuilder(context), exception('InvalidStateError'));
});

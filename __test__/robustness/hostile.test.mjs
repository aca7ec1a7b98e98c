import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exception, invalidState } from '../lib/exceptions.mjs';
import { MLGraphBuilder, floats, interfaces, ml, operand } from '../runtime/helpers.mjs';
import { operators, validCall } from './support.mjs';
import { wrong } from '../lib/types.mjs';

const typeError = exception('TypeError');

/** An object whose member runs `act` when it is read, and then gives `value`. */
const acting = (members, key, act) =>
  Object.defineProperty({ ...members }, key, {
    enumerable: true,
    get() {
      act();
      return members[key];
    },
  });

async function setUp() {
  const context = await ml.createContext({ numThreads: 1 });
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(2));
  const graph = await builder.build({ y: builder.neg(x) });
  const [a, b] = await Promise.all([context.createTensor(floats(2)), context.createTensor(floats(2))]);
  return { context, graph, a, b };
}

/** Values that are no object of an interface, however much they look like one. */
const impostors = (real, Interface) => [
  undefined,
  null,
  1,
  'x',
  {},
  Object.create(real),
  Object.create(Interface.prototype),
  new Proxy(real, {}),
  Interface.prototype,
  Interface,
  Object.setPrototypeOf({}, Interface.prototype),
];

test('every member refuses receivers that are not of its interface', async () => {
  const { context, graph, a } = await setUp();
  const builder = new MLGraphBuilder(context);
  const objects = {
    ML: ml,
    MLContext: context,
    MLGraph: graph,
    MLTensor: a,
    MLGraphBuilder: builder,
    MLOperand: builder.input('z', operand(1)),
  };
  const classes = { ...interfaces, MLGraphBuilder };
  for (const [name, object] of Object.entries(objects)) {
    const receivers = [...impostors(object, classes[name]), ...Object.values(objects).filter((other) => other !== object)];
    for (const [key, { value, get }] of Object.entries(Object.getOwnPropertyDescriptors(classes[name].prototype))) {
      if (key === 'constructor') {
        continue;
      }
      for (const receiver of receivers) {
        let result;
        try {
          result = Reflect.apply(get ?? value, receiver, [{}, {}, {}]);
        } catch (error) {
          typeError(/** @type {Error} */ (error));
          continue;
        }
        assert.ok(result instanceof Promise, `${name}.${key} accepted a receiver`);
        await assert.rejects(result, typeError);
      }
    }
  }
});

test('arguments that only look like objects of an interface are refused', async () => {
  const { context, graph, a, b } = await setUp();
  for (const fake of impostors(a, interfaces.MLTensor)) {
    assert.throws(() => context.writeTensor(fake, new Float32Array(2)), typeError);
    assert.throws(() => context.dispatch(graph, { x: fake }, { y: b }), typeError);
    assert.throws(() => new MLGraphBuilder(context).constant(fake), typeError);
    await assert.rejects(context.readTensor(fake), typeError);
  }
  for (const fake of impostors(graph, interfaces.MLGraph)) {
    assert.throws(() => context.dispatch(fake, { x: a }, { y: b }), typeError);
  }
  for (const fake of impostors(context, interfaces.MLContext)) {
    assert.throws(() => new MLGraphBuilder(fake), typeError);
  }
  const builder = new MLGraphBuilder(context);
  for (const fake of impostors(builder.input('x', operand(2)), interfaces.MLOperand)) {
    assert.throws(() => builder.neg(fake), typeError);
    assert.throws(() => builder.concat([fake], 0), typeError);
    await assert.rejects(builder.build({ fake }), typeError);
  }
});

test('what hostile getters throw comes out unchanged', async () => {
  const { context, graph, a, b } = await setUp();
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(2));
  const thrown = { not: 'even an Error' };
  const isThrown = (error) => error === thrown;
  const trap = () => {
    throw thrown;
  };
  const traps = Object.fromEntries(['get', 'has', 'ownKeys', 'getOwnPropertyDescriptor', 'getPrototypeOf'].map((name) => [name, trap]));
  const hostile = wrong(new Proxy({}, traps));
  const endless = { [Symbol.iterator]: trap };
  const failing = { [Symbol.iterator]: () => ({ next: trap }) };
  const number = wrong({ valueOf: trap, toString: trap });
  for (const call of [
    () => builder.input('y', hostile),
    () => builder.input(number, operand(1)),
    () => builder.input('y', { dataType: 'float32', shape: endless }),
    () => builder.input('y', { dataType: 'float32', shape: failing }),
    () => builder.input('y', { dataType: number, shape: [] }),
    () => builder.constant(hostile, new Float32Array(1)),
    () => builder.constant('float32', number),
    () => builder.relu(x, hostile),
    () => builder.relu(x, { label: number }),
    () => builder.concat(failing, 0),
    () => builder.softmax(x, number),
    () => context.dispatch(graph, hostile, { y: b }),
    () => context.dispatch(graph, { x: a }, hostile),
  ]) {
    assert.throws(call, isThrown);
  }
  for (const call of [
    () => ml.createContext(hostile),
    () => context.createTensor(hostile),
    () => context.createConstantTensor(hostile, new Float32Array(1)),
    () => new MLGraphBuilder(context).build(hostile),
  ]) {
    await assert.rejects(call(), isThrown);
  }
});

test('a getter that destroys the context in the middle of a call', async () => {
  for (const [call, isSync] of /** @type {[(state: any) => any, boolean?][]} */ ([
    [({ context, destroy }) => context.createTensor(acting(floats(2), 'shape', destroy))],
    [({ context, destroy }) => context.createConstantTensor(acting(operand(2), 'dataType', destroy), new Float32Array(2))],
    [
      ({ context, destroy, builder }) => (
        builder.neg(builder.input('q', operand(1))), builder.build(acting({ y: builder.neg(builder.input('r', operand(1))) }, 'y', destroy))
      ),
    ],
    [({ builder, destroy }) => builder.input('y', acting(operand(2), 'shape', destroy)), true],
    [({ builder, destroy }) => builder.constant(acting(operand(2), 'shape', destroy), new Float32Array(2)), true],
    [({ builder, destroy }) => builder.constant('float32', { valueOf: () => (destroy(), 1) }), true],
    [({ builder, x, destroy }) => builder.relu(x, acting({ label: '' }, 'label', destroy)), true],
    [({ builder, x, destroy }) => builder.conv2d(x, x, acting({ padding: [1] }, 'padding', destroy)), true],
    [({ context, graph, a, b, destroy }) => context.dispatch(graph, acting({ x: a }, 'x', destroy), { y: b }), true],
    [({ context, graph, a, b, destroy }) => context.dispatch(graph, { x: a }, acting({ y: b }, 'y', destroy)), true],
  ])) {
    const state = await setUp();
    const builder = new MLGraphBuilder(state.context);
    const x = builder.input('x', operand(2));
    const destroy = () => state.context.destroy();
    const all = { ...state, builder, x, destroy };
    if (isSync) {
      assert.throws(() => call(all), invalidState, `${call}`);
    } else {
      await assert.rejects(call(all), invalidState, `${call}`);
    }
    assert.match((await state.context.lost).message, /destroy/);
  }
});

test('a getter that destroys tensors or graphs in the middle of a dispatch', async () => {
  for (const victim of ['a', 'b', 'graph']) {
    for (const position of ['inputs', 'outputs']) {
      const state = await setUp();
      const { context, graph, a, b } = state;
      const destroy = () => state[victim].destroy();
      const inputs = position === 'inputs' ? acting({ x: a }, 'x', destroy) : { x: a };
      const outputs = position === 'outputs' ? acting({ y: b }, 'y', destroy) : { y: b };
      assert.throws(() => context.dispatch(graph, inputs, outputs), victim === 'graph' ? invalidState : typeError);
    }
  }
});

test('a getter that calls the API again in the middle of a call', async () => {
  const { context, graph, a, b } = await setUp();
  const dispatch = () => context.dispatch(graph, { x: a }, { y: b });
  context.writeTensor(a, new Float32Array([1, 2]));
  context.dispatch(graph, acting({ x: a }, 'x', dispatch), acting({ y: b }, 'y', dispatch));
  assert.deepEqual([...new Float32Array(await context.readTensor(b))], [-1, -2]);
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(2));
  assert.throws(
    () =>
      builder.input(
        acting({ toString: () => 'y' }, 'toString', () => builder.input('y', operand(1))),
        operand(1),
      ),
    typeError,
  );
  // The graph is built in the middle of the conversion of a later operator's options.
  let building;
  const build = () => {
    building ??= builder.build({ z: builder.neg(x) });
  };
  assert.throws(() => builder.relu(x, acting({ label: 'late' }, 'label', build)), invalidState);
  await building;
});

test('a getter that detaches or resizes the buffer in the middle of a call', async () => {
  const { context } = await setUp();
  const detach = (buffer) => () => structuredClone(buffer, { transfer: [buffer] });
  for (const make of [(n) => new Float32Array(n), (n) => new ArrayBuffer(4 * n), (n) => new Uint8Array(4 * n)]) {
    let data = make(2);
    const descriptor = () => acting(operand(2), 'shape', detach(ArrayBuffer.isView(data) ? data.buffer : data));
    await assert.rejects(context.createConstantTensor(descriptor(), data), typeError);
    data = make(2);
    assert.throws(() => new MLGraphBuilder(context).constant(descriptor(), data), typeError);
  }
});

test('sets, maps and iterators that change while they are read', async () => {
  const { context } = await setUp();
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(2, 3));
  const sizes = [1, 2];
  assert.throws(() => builder.input('y', { dataType: 'int8', shape: wrong({ [Symbol.iterator]: () => ({ next: () => 1 }) }) }), typeError);
  const shape = {
    *[Symbol.iterator]() {
      yield { valueOf: () => sizes.push(3) };
      yield* sizes;
    },
  };
  assert.deepEqual(builder.input('y', { dataType: 'int8', shape: wrong(shape) }).shape, [3, 1, 2, 3]);
  const list = [x];
  const shrinking = new Proxy(list, {
    get(target, key) {
      if (key === '0') {
        list.length = 0;
        return x;
      }
      return Reflect.get(target, key);
    },
  });
  assert.deepEqual(builder.concat(shrinking, 0).shape, [2, 3]);
  const revoked = Proxy.revocable(wrong({}), {});
  revoked.revoke();
  for (const call of [() => builder.relu(revoked.proxy), () => builder.relu(x, revoked.proxy), () => builder.concat(revoked.proxy, 0)]) {
    assert.throws(call, typeError);
  }
});

test('operands of another builder are refused by every operator', async () => {
  const context = await ml.createContext();
  for (const row of operators) {
    const call = validCall(context, row);
    const foreign = new MLGraphBuilder(context).input('x', operand(2, 3));
    row.arguments.forEach(({ type }, index) => {
      if (type.includes('MLOperand') && !type.includes('DataType')) {
        const args = [...call.args];
        args[index] = type === 'MLOperand' ? foreign : [foreign];
        assert.throws(() => call.builder[row.name](...args, call.options), exception('TypeError', /another builder/));
      }
    });
    for (const [name, value] of Object.entries(call.options)) {
      if (value instanceof interfaces.MLOperand) {
        const options = { ...call.options, [name]: foreign };
        assert.throws(() => call.builder[row.name](...call.args, options), exception('TypeError', /another builder/));
      }
    }
  }
});

test('names with lone surrogates, control characters and of any length', async () => {
  const { context } = await setUp();
  const builder = new MLGraphBuilder(context);
  const names = ['\ud800', 'a\udc00b', '\0', '\u202e', '__proto__', 'constructor', 'toString', ' ', '0', 'x'.repeat(1 << 20)];
  const outputs = Object.create(null);
  const bound = { inputs: Object.create(null), outputs: Object.create(null) };
  for (const [i, name] of names.entries()) {
    // All lone surrogates become the same character.
    if (name === 'a\udc00b') {
      assert.throws(() => builder.input('\udfff', operand(2)), exception('TypeError', /already/));
    }
    const x = builder.input(name, operand(2));
    outputs[name] = builder.add(x, builder.constant('float32', i), { label: name });
    bound.inputs[name] = await context.createTensor(floats(2));
    bound.outputs[name] = await context.createTensor(floats(2));
  }
  const graph = await builder.build(outputs);
  context.dispatch(graph, bound.inputs, bound.outputs);
  for (const [i, name] of names.entries()) {
    assert.equal(new Float32Array(await context.readTensor(bound.outputs[name]))[0], i);
  }
  const { '\ud800': moved, ...rest } = bound.inputs;
  context.dispatch(graph, { ...rest, ['__proto__']: bound.inputs['__proto__'], '\udbff': moved }, bound.outputs);
  assert.throws(
    () => context.dispatch(graph, rest, bound.outputs),
    (/** @type {Error} */ error) => typeError(error) && error.message.length < 2000,
  );
});

test('texts and numbers of enormous size make short messages', async () => {
  const { context } = await setUp();
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(2));
  const text = wrong('x'.repeat(2 ** 28));
  const isShort = (error) => typeError(error) && assert.ok(error.message.length < 20_000) === undefined;
  assert.throws(() => builder.constant(text, 1), isShort);
  assert.throws(() => builder.cast(x, text), isShort);
  assert.throws(() => builder.softmax(x, wrong(1n << (1n << 24n))), isShort);
  assert.throws(() => builder.softmax(x, wrong([text])), isShort);
  await assert.rejects(ml.createContext({ powerPreference: text }), isShort);
  assert.deepEqual(builder.clamp(x, { maxValue: 1n << (1n << 20n) }).shape, [2]);
  assert.deepEqual(builder.constant('int64', -(1n << (1n << 20n))).shape, []);
  const long = { label: '\u{1F600}'.repeat(2 ** 24) };
  assert.deepEqual(builder.relu(x, long).shape, [2]);
  assert.throws(() => builder.softmax(x, 9, long), isShort);
  assert.throws(() => builder.softmax(x, 9, { label: 'x'.repeat(2 ** 29 - 24) }), isShort);
  const rank = Array(1_000_000).fill(1);
  assert.throws(() => builder.input('y', operand(...rank.slice(0, 1000))), typeError);
  assert.throws(() => builder.input('y', { dataType: 'int8', shape: rank }), isShort);
  assert.throws(() => builder.reshape(x, rank), isShort);
  assert.throws(() => builder.reduceSum(x, { axes: rank }), isShort);
});

test('things are what they were when it is over', async () => {
  const { context, graph, a, b } = await setUp();
  context.writeTensor(a, new Float32Array([3, 4]));
  context.dispatch(graph, { x: a }, { y: b });
  assert.deepEqual([...new Float32Array(await context.readTensor(b))], [-3, -4]);
});

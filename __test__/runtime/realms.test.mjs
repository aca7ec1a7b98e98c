import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { createContext, runInContext } from 'node:vm';
import { root } from '../../scripts/process.mjs';
import { exception } from '../lib/exceptions.mjs';
import * as api from '../../index.js';
import { DOUBLE, FLOAT, node, value, weight, writeModel } from '../onnx/model-writer.mjs';
import { MLGraphBuilder, floats, ml, operand, read } from './helpers.mjs';

const realm = createContext({ api: { ...api } });

/** Evaluates an expression where every object and class is another one. */
const foreign = (expression) => runInContext(`(${expression})`, realm);

test('descriptors, options and lists of another realm are accepted', async () => {
  const context = await ml.createContext(foreign(`{ powerPreference: 'low-power', numThreads: 1 }`));
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', foreign(`{ dataType: 'float32', shape: [2, 3] }`));
  assert.deepEqual(x.shape, [2, 3]);
  const parts = builder.split(x, foreign(`[1, 2]`), foreign(`{ axis: 1, label: new String('parts') }`));
  assert.ok(Array.isArray(parts) && Object.getPrototypeOf(parts) === Array.prototype);
  const sum = builder.reduceSum(x, foreign(`{ axes: new Set([0]), keepDimensions: 1 }`));
  assert.deepEqual(sum.shape, [1, 3]);
});

test('buffers of another realm are read and filled', async () => {
  const context = await ml.createContext();
  const tensor = await context.createTensor(floats(4));
  for (const source of [
    'new Float32Array([1, 2, 3, 4])',
    'new Float32Array([0, 1, 2, 3, 4, 5]).subarray(1, 5)',
    'new Float32Array([1, 2, 3, 4]).buffer',
    'new Uint8Array(new Float32Array([1, 2, 3, 4]).buffer)',
    'Object.assign(new SharedArrayBuffer(16), {})',
    'new Float32Array(new SharedArrayBuffer(16))',
  ]) {
    const data = foreign(source);
    const bytes = ArrayBuffer.isView(data) ? new Float32Array(data.buffer, data.byteOffset, 4) : new Float32Array(data);
    bytes.set([1, 2, 3, 4]);
    context.writeTensor(tensor, data);
    bytes.fill(0);
    await context.readTensor(tensor, data);
    assert.deepEqual([...bytes], [1, 2, 3, 4], source);
    await context.createConstantTensor(operand(4), data);
    new MLGraphBuilder(context).constant(operand(4), data);
  }
  assert.throws(() => context.writeTensor(tensor, foreign('new Float64Array(2)')), exception('TypeError', /Float64Array/));
});

test('records of another realm are accepted', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  realm.y = builder.neg(builder.input('x', operand(1)));
  const graph = await builder.build(foreign('{ y }'));
  [realm.a, realm.b] = await Promise.all([context.createTensor(floats(1)), context.createTensor(floats(1))]);
  context.writeTensor(realm.a, new Float32Array([5]));
  context.dispatch(graph, foreign('{ x: a }'), foreign('{ y: b }'));
  assert.deepEqual([...new Float32Array(await context.readTensor(realm.b))], [-5]);
});

test('code of another realm uses the objects of this one, whose exceptions are thrown', async () => {
  realm.MLGraphBuilder = MLGraphBuilder;
  realm.ml = ml;
  const shape = await foreign(`(async () => {
    const context = await ml.createContext();
    const builder = new MLGraphBuilder(context);
    const tensor = await context.createTensor({ dataType: 'float32', shape: [2] });
    return [...tensor.shape, ...builder.input('x', { dataType: 'int8', shape: [3] }).shape];
  })()`);
  assert.deepEqual([...shape], [2, 3]);
  await assert.rejects(foreign(`ml.createContext(1)`), exception('TypeError'));
});

test('iterables, functions and numbers of another realm are converted', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const shape = foreign(`(function* () { yield 2; yield { valueOf: () => 3 }; yield new Number(4); })()`);
  const x = builder.input('x', { dataType: 'float32', shape });
  assert.deepEqual(x.shape, [2, 3, 4]);
  const permutation = foreign(`{ [Symbol.iterator]: () => { let i = 3; return { next: () => ({ done: i === 0, value: --i }) }; } }`);
  assert.deepEqual(builder.transpose(x, { permutation }).shape, [4, 3, 2]);
  assert.deepEqual(builder.reshape(x, foreign(`new Uint32Array([6, 4])`)).shape, [6, 4]);
  assert.deepEqual(builder.transpose(x, foreign(`Object.create({ permutation: [1, 0, 2] })`)).shape, [3, 2, 4]);
  assert.deepEqual(builder.concat(foreign(`(x) => [x, x]`)(x), 0).shape, [4, 3, 4]);
  assert.equal(builder.constant('int64', foreign(`2n ** 40n`)).dataType, 'int64');
  assert.equal(builder.input(foreign(`{ toString: () => 'name' }`), operand(1)).dataType, 'float32');
  // A function is an object, and an object is a dictionary.
  assert.deepEqual(builder.softplus(x, foreign(`Object.assign(() => {}, { label: 'a function' })`)).shape, [2, 3, 4]);
});

test('what Web IDL refuses is refused from another realm, too', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const tensor = await context.createTensor(floats(4));
  const x = builder.input('x', operand(4));
  for (const call of [
    () => builder.input('y', { dataType: 'float32', shape: foreign(`{ 0: 4, length: 1 }`) }),
    () => builder.relu(foreign(`Object.create(null)`)),
    () => builder.relu(x, foreign(`Symbol('options')`)),
    () => builder.constant(operand(4), foreign(`{ byteLength: 16 }`)),
    () => builder.constant(operand(4), foreign(`new DataView(new ArrayBuffer(16))`)),
    () => context.writeTensor(tensor, foreign(`new Proxy(new Float32Array(4), {})`)),
    () => context.dispatch(foreign(`{}`), {}, {}),
  ]) {
    assert.throws(call, exception('TypeError'), call.toString());
  }
});

test('an exception of another realm passes as it is', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const isForeign = (error) => error.name === 'RangeError' && !(error instanceof RangeError);
  const throwing = foreign(`{ get dataType() { throw new RangeError('mine'); }, shape: [1] }`);
  assert.throws(() => builder.input('x', throwing), isForeign);
  await assert.rejects(context.createTensor(throwing), isForeign);
});

/**
 * Evaluates modules of the package as test runners do: all of its JavaScript in another realm, with a module cache of its
 * own. Returns the exports of all of them.
 */
function evaluateIn(sandbox, ...files) {
  const nodeRequire = createRequire(import.meta.url);
  const modules = new Map();
  const load = (file) => {
    if (!modules.has(file)) {
      const module = { exports: {} };
      modules.set(file, module);
      const requireFrom = (name) => {
        if (name.startsWith('node:')) {
          return nodeRequire(name);
        }
        const path = join(dirname(file), name);
        return path.endsWith('.json') ? nodeRequire(path) : load(path);
      };
      const wrapper = runInContext(`(function (module, exports, require, __dirname) {${readFileSync(file, 'utf8')}\n})`, sandbox);
      wrapper(module, module.exports, requireFrom, dirname(file));
    }
    return modules.get(file).exports;
  };
  return Object.assign({}, ...files.map((file) => load(join(root, file))));
}

/** What test runners give to a realm of their own. */
const newRealm = () => createContext({ DOMException, process });

test('the package is evaluated in two more realms, and all three compute side by side', async () => {
  const copies = [api, evaluateIn(newRealm(), 'index.js'), evaluateIn(newRealm(), 'index.js')];
  assert.equal(new Set(copies.map(({ ml }) => ml)).size, 3);
  const results = copies.map(async (copy, index) => {
    const context = await copy.ml.createContext();
    const builder = new copy.MLGraphBuilder(context);
    const graph = await builder.build({
      y: builder.mul(builder.input('x', operand(2)), builder.constant('float32', index)),
    });
    const [from, to] = [await context.createTensor(floats(2)), await context.createTensor(floats(2))];
    const values = [];
    for (let i = 0; i < 20; i++) {
      context.writeTensor(from, new Float32Array([1, i]));
      context.dispatch(graph, { x: from }, { y: to });
      values.push([...(await read(context, to))]);
    }
    return values;
  });
  (await Promise.all(results)).forEach((values, index) =>
    assert.deepEqual(
      values,
      Array.from({ length: 20 }, (_, i) => [index, i * index]),
    ),
  );
  // Objects belong to the copy that made them.
  const [context] = await Promise.all(copies.slice(1).map((copy) => copy.ml.createContext()));
  assert.throws(() => new MLGraphBuilder(context), exception('TypeError', /expected an MLContext/));
});

/** The keys of an object's own properties, and of the accessors that it inherits. */
function keysOf(object) {
  if (ArrayBuffer.isView(object)) {
    return ['buffer'];
  }
  const keys = Reflect.ownKeys(object);
  for (let from = Object.getPrototypeOf(object); from !== null; from = Object.getPrototypeOf(from)) {
    keys.push(...Reflect.ownKeys(from).filter((key) => key !== '__proto__' && Object.getOwnPropertyDescriptor(from, key)?.get !== undefined));
  }
  // Errors of Node's own modules are causes.
  return keys.filter((key) => key !== 'cause');
}

/** The paths to everything of other realms that can be reached from a value. */
function strangers(value, sandbox) {
  const objectPrototype = runInContext('Object.prototype', sandbox);
  const { isPrototypeOf } = Object.prototype;
  const found = [];
  const seen = new Set();
  const visit = (object, path) => {
    const isObject = (typeof object === 'object' && object !== null) || typeof object === 'function';
    // Test runners share DOMException among realms.
    if (!isObject || seen.has(object) || object instanceof DOMException) {
      return;
    }
    seen.add(object);
    if (!isPrototypeOf.call(objectPrototype, object)) {
      found.push(path);
    } else if (typeof object !== 'function') {
      keysOf(object).forEach((key) => visit(object[key], `${path}.${String(key)}`));
    }
  };
  visit(value, 'value');
  return found;
}

const LONG = 1 << 14;

/** y = x + 1, and the first element of y, for any number of elements. */
const incrementing = writeModel({
  inputs: [value('x', FLOAT, ['n'])],
  outputs: [value('y', FLOAT, ['n']), value('first', FLOAT, [1]), value('grown', FLOAT, ['m', 1])],
  weights: [weight('one', [], Float32Array.of(1)), weight('start', [1], BigInt64Array.of(0n)), weight('end', [1], BigInt64Array.of(1n))],
  nodes: [
    node('Add', ['x', 'one'], ['y']),
    node('Slice', ['y', 'start', 'end'], ['first']),
    node('Unsqueeze', ['y', 'end'], ['column']),
    node('Concat', ['column', 'column'], ['grown'], { axis: { i: 0 } }),
  ],
});

/** Of a type that the native side converts, and an operator that does not exist. */
const doubled = writeModel({ inputs: [value('x', DOUBLE, [1])], outputs: [value('y', DOUBLE, [1])], nodes: [node('Add', ['x', 'x'], ['y'])] });
const unsupported = writeModel({ inputs: [value('x', FLOAT, [1])], outputs: [value('y', FLOAT, [1])], nodes: [node('NoSuchOperator', ['x'], ['y'])] });

/** Uses every function of the package: all that returns something, and all ways to fail natively. */
const USES = `(async (copy, models) => {
  const { ml, MLGraphBuilder, loadModel, inspectModel, importModel, inputShapes, supportedOperators, unsupportedOperators, describeGraph, profileGraph, systemInfo } = copy;
  const uses = {};
  const use = async (name, run) => {
    let promise;
    try {
      promise = run();
      uses[name] = { promise, value: await promise };
    } catch (error) {
      uses[name] = { promise, error };
    }
    return uses[name].value;
  };
  const floats = (...shape) => ({ dataType: 'float32', shape, readable: true, writable: true });
  const context = await use('createContext', () => ml.createContext({ extensions: ['dynamic-shapes', 'donation', 'int4'] }));
  await use('opSupportLimits', () => context.opSupportLimits());
  const builder = new MLGraphBuilder(context);
  const x = await use('input', () => builder.input('x', { dataType: 'float32', shape: [2, 3] }));
  await use('split', () => builder.split(x, [1, 2], { axis: 1 }));
  await use('operator that fails', () => builder.gemm(x, x));
  await use('operator with a wrong attribute', () => builder.reshape(x, [7]));
  const graph = await use('build', () => builder.build({ y: builder.add(x, builder.constant('float32', 1)) }));
  await use('computeShapes', () => graph.computeShapes({ x: [2, 3] }));
  const [from, to] = [await use('createTensor', () => context.createTensor(floats(2, 3))), await context.createTensor(floats(2, 3))];
  await use('createConstantTensor', () => context.createConstantTensor({ dataType: 'float32', shape: [1] }, new Float32Array(1)));
  await use('createTensor that fails', () => context.createTensor(floats(2 ** 31, 2 ** 31)));
  context.writeTensor(from, new Float32Array(6));
  context.dispatch(graph, { x: from }, { y: to });
  await use('readTensor', () => context.readTensor(to));
  await use('readTensor that fails', () => (to.destroy(), context.readTensor(to)));
  const target = await context.createTensor(floats(2, 3));
  await use('readTensor of a tensor that is destroyed', () => { const read = context.readTensor(target); target.destroy(); return read; });
  await use('describeGraph', () => describeGraph(graph));
  await use('profileGraph', async () => profileGraph(context, graph, { x: from }, { y: await context.createTensor(floats(2, 3)) }, { runs: 1 }));
  await use('systemInfo', () => systemInfo());
  const named = new MLGraphBuilder(context);
  const dynamic = await use('build with names', () => named.build({ y: named.neg(named.input('x', { dataType: 'float32', shape: ['n', 2] })) }));
  await use('computeShapes with names', () => dynamic.computeShapes({ x: [4, 2] }));
  await use('computeShapes that fails', () => dynamic.computeShapes({ x: [4] }));
  await use('inspectModel', () => inspectModel(models.incrementing));
  await use('inspectModel of no model', () => inspectModel(new Uint8Array(9)));
  await use('importModel', () => importModel(new MLGraphBuilder(context), models.incrementing, {}, { freeDimensions: { n: 2 } }));
  await use('importModel that is unsupported', () => importModel(new MLGraphBuilder(context), models.unsupported));
  await use('inputShapes', () => inputShapes(inspectModel(models.incrementing).inputs, { shapes: { x: [4] } }));
  await use('supportedOperators', () => supportedOperators());
  await use('operators that are absent', () => unsupportedOperators());
  const model = await use('loadModel', () => loadModel(models.incrementing, { context }));
  const { y } = await use('run', () => model.run({ x: new Float32Array(2) })) ?? {};
  await use('run with a long result', () => model.run({ x: new Float32Array(${LONG}) }));
  await use('run with a result', () => model.run({ x: y }));
  await use('run with a tensor', () => model.run({ x: new Float32Array(2) }, { y: 'tensor' }));
  await use('run that fails', () => model.run({ x: new Float32Array(0) }, { y: 'tensor' }));
  await use('run without feeds', () => model.run({}));
  await use('profile', () => model.profile({ x: new Float32Array(2) }));
  await use('compile', () => model.compile({ x: [2] }));
  await use('compile that fails', () => model.compile({ x: [2, 2] }));
  await use('describe', () => model.describe({ x: [2] }));
  await use('loadModel of doubles', async () => (await loadModel(models.doubled, { context })).run({ x: new Float64Array(1) }));
  await use('loadModel of no model', () => loadModel(new Uint8Array(9), { context }));
  await use('loadModel of no file', () => loadModel('no-such-file.onnx', { context }));
  await use('loadModel of no URL', () => loadModel('file://elsewhere/model.onnx', { context }));
  await use('loadModel that is unsupported', () => loadModel(models.unsupported, { context }));
  await use('lost', () => { context.destroy(); return context.lost; });
  await use('createTensor of a lost context', () => context.createTensor(floats(1)));
  return uses;
})`;

/** The uses that fail. */
const FAILING = /fail|wrong| no |unsupported|without|destroyed|lost context/;

test('whatever the package makes is of the realm in which it was evaluated, the second one and the third', async () => {
  const models = { incrementing, doubled, unsupported };
  const all = ['index.js', 'onnx.js', 'inspect.js'];
  // The first copy is the one of this realm.
  await api.ml.createContext();
  const listeners = process.listenerCount('exit');
  for (const sandbox of [newRealm(), newRealm()]) {
    const Realm = runInContext('({ Promise, Error, TypeError })', sandbox);
    const uses = await runInContext(USES, sandbox)(evaluateIn(sandbox, ...all), models);
    assert.equal(process.listenerCount('exit'), listeners);
    assert.equal(Object.keys(uses).length, 45);
    for (const [name, { promise, value, error }] of Object.entries(uses)) {
      assert.equal(error !== undefined, FAILING.test(name), `${name}: ${error?.stack}`);
      assert.ok(error === undefined || error instanceof Realm.Error || error instanceof DOMException, `${name}: ${error}`);
      assert.ok(error?.name !== 'TypeError' || error instanceof Realm.TypeError, `${name}: ${error}`);
      const isPromise = typeof promise?.then === 'function';
      assert.ok(!isPromise || promise instanceof Realm.Promise, `the promise of ${name}`);
      assert.deepEqual([...strangers(value, sandbox), ...strangers(error, sandbox)], [], name);
    }
    assert.equal(uses['loadModel that is unsupported'].error.unsupported.length, 1);
  }
});

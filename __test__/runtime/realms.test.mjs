import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { createContext, runInContext } from 'node:vm';
import { root } from '../../scripts/process.mjs';
import { exception } from '../lib/exceptions.mjs';
import * as api from '../../index.js';
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

/** Evaluates the package as test runners do: all of its JavaScript in another realm, with a module cache of its own. */
function evaluateIn(sandbox) {
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
  return load(join(root, 'index.js'));
}

test('the package is evaluated in two more realms, and all three compute side by side', async () => {
  const globals = () => createContext({ DOMException, setImmediate, process });
  const copies = [api, evaluateIn(globals()), evaluateIn(globals())];
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

import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { resultOf } from '../../../__test__/runtime/helpers.mjs';
import { exception } from '../../../__test__/lib/exceptions.mjs';
import { assertClose, convolution, draft2021, numbers, run } from './helpers.mjs';

const { ml, MLGraphBuilder } = draft2021;
const newBuilder = () => new MLGraphBuilder(ml.createContext());
const float32 = (dimensions) => ({ type: 'float32', dimensions });

/** y = 2 * x, z = x + w. */
function twoOutputs() {
  const builder = newBuilder();
  const x = builder.input('x', float32([2, 2]));
  const w = builder.input('w', float32([2]));
  return builder.build({ y: builder.mul(x, builder.constant(2)), z: builder.add(x, w) });
}

const X = Float32Array.of(1, 2, 3, 4);
const W = Float32Array.of(10, 20);

describe('compute', () => {
  test('of graphs of one builder whose inputs have the same name', () => {
    const builder = newBuilder();
    const [single, pair] = [[1], [-1]].map((dimensions) => builder.input('x', float32(dimensions)));
    const first = builder.build({ y: builder.neg(single) });
    const second = builder.build({ y: builder.reduceSum(pair) });
    const y = new Float32Array(1);
    first.compute({ x: Float32Array.of(5) }, { y });
    assert.deepEqual([...y], [-5]);
    second.compute({ x: { resource: Float32Array.of(1, 2), dimensions: [2] } }, { y });
    assert.deepEqual([...y], [3]);
    assert.throws(() => builder.build({ y: builder.add(single, pair) }), { name: 'TypeError', message: /two inputs of the graph have the name "x"/ });
  });

  test('is done when it returns, and returns undefined', () => {
    const y = new Float32Array(4);
    const z = new Float32Array(4);
    assert.equal(twoOutputs().compute({ x: X, w: W }, { z, y }), undefined);
    assert.deepEqual([...y], [2, 4, 6, 8]);
    assert.deepEqual([...z], [11, 22, 13, 24]);
    assert.deepEqual([...X], [1, 2, 3, 4], 'inputs stay with the caller');
  });

  test('gives only what is asked for, and asks only for what that needs', () => {
    const graph = twoOutputs();
    const y = new Float32Array(4);
    graph.compute({ x: X }, { y });
    assert.deepEqual([...y], [2, 4, 6, 8]);
    assert.equal(graph.compute({ x: X }, {}), undefined);
    assert.throws(() => graph.compute({ x: X }, { z: new Float32Array(4) }), exception('DataError', /output "z" needs the input "w", which is missing/));
  });

  test('takes views that are parts of buffers, and outputs that are longer than needed', () => {
    const buffer = new Float32Array([9, 9, 1, 2, 3, 4, 9]);
    const y = new Float32Array(8).fill(7);
    twoOutputs().compute({ x: buffer.subarray(2, 6) }, { y: y.subarray(1) });
    assert.deepEqual([...y], [7, 2, 4, 6, 8, 7, 7, 7]);
  });

  test('takes what Node has in place of a Uint8Array', () => {
    const builder = newBuilder();
    const bytes = { type: 'uint8', dimensions: [3] };
    const c = builder.constant(bytes, Buffer.from('abc'));
    const y = Buffer.from('....');
    const x = Buffer.from('xyz');
    builder.build({ y: builder.max(builder.input('x', bytes), c) }).compute({ x }, { y });
    assert.deepEqual([y.toString(), x.toString()], ['xyz.', 'xyz']);
  });

  test('takes the same buffer as input and output', () => {
    const graph = twoOutputs();
    const values = Float32Array.from(X);
    graph.compute({ x: values }, { y: values });
    graph.compute({ x: { resource: values, dimensions: [2, 2] } }, { y: values });
    assert.deepEqual([...values], [4, 8, 12, 16]);
  });

  test('refuses what does not fit the graph with a DataError, and writes nothing', () => {
    const graph = twoOutputs();
    const y = new Float32Array(4).fill(-1);
    const refuses = (inputs, outputs, message) => assert.throws(() => graph.compute(inputs, outputs), exception('DataError', message));
    refuses({ x: X, v: W }, { y }, /input "v" is not in the graph, which has "x", "w"/);
    refuses({ x: X, w: W }, { y, v: y }, /output "v" is not in the graph, which has "y", "z"/);
    refuses({ x: Float64Array.from(X) }, { y }, /input "x" is a Float64Array, expected a Float32Array for float32/);
    refuses({ x: new DataView(X.buffer) }, { y }, /input "x" is a DataView/);
    refuses({ x: X.subarray(1) }, { y }, /input "x" has 3 elements, expected the 4 of \[2, 2\]/);
    refuses({ x: { resource: X, dimensions: [4] } }, { y }, /input "x" is given dimensions \[4\], expected \[2, 2\]/);
    refuses({ x: { resource: X, dimensions: [1, 4] } }, { y }, /input "x" is given dimensions \[1, 4\], expected \[2, 2\]/);
    refuses({ x: X, w: W }, { y, z: new Float32Array(3) }, /output "z" has room for 3 elements, expected at least the 4 of \[2, 2\]/);
    refuses({ x: X, w: W }, { y, z: new Int32Array(4) }, /output "z" is an Int32Array, expected a Float32Array for float32/);
    assert.deepEqual([...y], [-1, -1, -1, -1]);
  });

  test('refuses what is no view with a TypeError', () => {
    const graph = twoOutputs();
    const refuses = (inputs, outputs, message) => assert.throws(() => graph.compute(inputs, outputs), { name: 'TypeError', message });
    refuses({ x: [1, 2, 3, 4] }, {}, /inputs\["x"\].dimensions is required/);
    refuses({ x: { resource: [1, 2, 3, 4], dimensions: [2, 2] } }, {}, /inputs\["x"\].resource is not an ArrayBufferView/);
    refuses({ x: 5 }, {}, /inputs\["x"\] is 5, expected an object/);
    refuses({ x: X }, { y: X.buffer }, /outputs\["y"\] is not an ArrayBufferView/);
    refuses({ x: new Float32Array(new SharedArrayBuffer(16)) }, {}, /inputs\["x"\] is backed by a SharedArrayBuffer/);
    assert.throws(() => graph.compute({ x: X }), { name: 'TypeError', message: /2 arguments required, 1 given/ });
  });
});

describe('build', () => {
  test('may be called again, for what is there and for what comes later', () => {
    const builder = newBuilder();
    const x = builder.input('x', float32([4]));
    const c = builder.constant(float32([4]), Float32Array.of(1, 2, 3, 4));
    const sum = builder.add(x, c);
    const graphs = [builder.build({ y: sum }), builder.build({ y: builder.mul(sum, c) }), builder.build({ y: sum })];
    const results = graphs.map((graph) => {
      const y = new Float32Array(4);
      graph.compute({ x: X }, { y });
      return [...y];
    });
    assert.deepEqual(results, [
      [2, 4, 6, 8],
      [2, 8, 18, 32],
      [2, 4, 6, 8],
    ]);
  });

  test('takes inputs, constants and the same operand twice as outputs', () => {
    const builder = newBuilder();
    const x = builder.input('x', float32([2]));
    const y = builder.neg(x);
    const graph = builder.build({ x, c: builder.constant(3), y, again: y });
    const views = {
      x: new Float32Array(2),
      c: new Float32Array(1),
      y: new Float32Array(2),
      again: new Float32Array(2),
    };
    graph.compute({ x: W }, views);
    assert.deepEqual(
      Object.values(views).map((view) => [...view]),
      [[10, 20], [3], [-10, -20], [-10, -20]],
    );
  });

  test('names are any strings, also empty ones and those of prototypes', () => {
    const builder = newBuilder();
    const names = ['', '__proto__', 'constructor', '\u0000', '💧'];
    const outputs = Object.create(null);
    const feeds = Object.create(null);
    for (const [i, name] of names.entries()) {
      outputs[name] = builder.add(builder.input(name, float32([1])), builder.constant(i));
      feeds[name] = Float32Array.of(10 * i);
    }
    const views = Object.fromEntries(names.map((name) => [name, new Float32Array(1)]));
    builder.build(outputs).compute(feeds, views);
    assert.deepEqual(
      names.map((name) => views[name][0]),
      [0, 11, 22, 33, 44],
    );
  });

  test('later changes of a buffer do not change a constant', () => {
    const builder = newBuilder();
    const values = Float32Array.of(1, 2);
    const c = builder.constant(float32([2]), values);
    values.fill(9);
    const y = new Float32Array(2);
    builder.build({ y: builder.neg(c) }).compute({}, { y });
    assert.deepEqual([...y], [-1, -2]);
  });
});

describe('dimensions that are not known before compute()', () => {
  test('must be given then, and fit those that are known', () => {
    const builder = newBuilder();
    const x = builder.input('x', float32([-1, 2]));
    const graph = builder.build({ y: builder.neg(x) });
    const y = new Float32Array(4);
    const refuses = (input, message) => assert.throws(() => graph.compute({ x: input }, { y }), exception('DataError', message));
    refuses(X, /input "x" has unknown dimensions \[-1, 2\], expected \{resource, dimensions\}/);
    refuses({ resource: X, dimensions: [1, 4] }, /given dimensions \[1, 4\], expected \[-1, 2\]/);
    refuses({ resource: X, dimensions: [2] }, /given dimensions \[2\], expected \[-1, 2\]/);
    refuses({ resource: X, dimensions: [0, 2] }, /given dimensions \[0, 2\]/);
    refuses({ resource: X, dimensions: [3, 2] }, /has 4 elements, expected the 6 of \[3, 2\]/);
    graph.compute({ x: { resource: X, dimensions: [2, 2] } }, { y });
    assert.deepEqual([...y], [-1, -2, -3, -4]);
  });

  test('flow through every operator whose result depends on them', () => {
    const builder = newBuilder();
    const x = builder.input('x', float32([-1, 1, -1, -1]));
    const filter = numbers(9);
    const convolved = builder.conv2d(x, builder.constant(float32([1, 1, 3, 3]), Float32Array.from(filter)), {
      autoPad: 'same-lower',
      strides: [2, 2],
    });
    const [first, second] = builder.split(builder.reshape(convolved, [2, null]), 2);
    const difference = builder.sub(builder.squeeze(first), builder.squeeze(second));
    const graph = builder.build({ convolved, difference, cut: builder.slice(difference, [1], [-1]) });
    for (const [height, width] of [
      [4, 4],
      [5, 7],
      [2, 6],
    ]) {
      const [h, w] = [Math.ceil(height / 2), Math.ceil(width / 2)];
      const values = numbers(2 * height * width, height);
      // Even sizes need one element of padding, odd ones two.
      const begin = [1, 1];
      const expected = convolution(values, [2, 1, height, width], filter, [1, 1, 3, 3], {
        begin,
        strides: [2, 2],
        outputShape: [2, 1, h, w],
      });
      const views = {
        convolved: new Float32Array(2 * h * w),
        difference: new Float32Array(h * w),
        cut: new Float32Array(h * w - 1),
      };
      graph.compute({ x: { resource: Float32Array.from(values), dimensions: [2, 1, height, width] } }, views);
      const differences = expected.slice(0, h * w).map((value, i) => value - expected[h * w + i]);
      assertClose(views.convolved, expected);
      assertClose(views.difference, differences);
      assert.deepEqual(views.cut, views.difference.slice(1));
    }
  });

  test('that do not fit the operators are an OperationError, which says why; others work after that', () => {
    const builder = newBuilder();
    const a = builder.input('a', float32([2, -1]));
    const b = builder.input('b', float32([-1, 2]));
    const graph = builder.build({ c: builder.matmul(a, b) });
    const c = new Float32Array(4);
    const feed = (view, dimensions) => ({ resource: view, dimensions });
    assert.throws(
      () => graph.compute({ a: feed(X, [2, 2]), b: feed(W, [1, 2]) }, { c }),
      exception('OperationError', /cannot be compiled for inputs of the shapes \[2, 2\], \[1, 2\]: matmul: .*\[2, 2\] and \[1, 2\]/),
    );
    graph.compute({ a: feed(W, [2, 1]), b: feed(W, [1, 2]) }, { c });
    assert.deepEqual([...c], [100, 200, 200, 400]);
  });

  test('are compiled for again after more of them than are kept', () => {
    const builder = newBuilder();
    const x = builder.input('x', float32([-1]));
    const graph = builder.build({ y: builder.mul(x, builder.constant(3)), total: builder.reduceSum(x) });
    for (const length of [...Array.from({ length: 12 }, (_, i) => i + 1), 1, 12, 2]) {
      const values = Float32Array.from({ length }, (_, i) => i);
      const views = { y: new Float32Array(length), total: new Float32Array(1) };
      graph.compute({ x: { resource: values, dimensions: [length] } }, views);
      assert.deepEqual(
        [...views.y],
        Array.from(values, (value) => 3 * value),
      );
      assert.equal(views.total[0], (length * (length - 1)) / 2);
    }
  });

  test('are known sizes where a graph needs none of the inputs that have them', () => {
    const builder = newBuilder();
    builder.input('unused', float32([-1]));
    const y = new Float32Array(1);
    builder.build({ y: builder.neg(builder.input('x', float32([1]))) }).compute({ x: Float32Array.of(5) }, { y });
    assert.equal(y[0], -5);
  });
});

describe('the thread of the contexts', () => {
  /** Counts threads from before the package is loaded; `started` holds them. */
  const watch = `
    const threads = require('node:worker_threads');
    const started = [];
    threads.Worker = class extends threads.Worker { constructor(...args) { super(...args); started.push(this); } };`;

  test('is started by the first context, and only once', async () => {
    const lines = await run(`${watch}
      const { draft2021: { ml, MLGraphBuilder } } = require(COMPAT);
      console.log(started.length);
      const contexts = [ml.createContext(), ml.createContext({ devicePreference: 'cpu' })];
      contexts.forEach((context) => new MLGraphBuilder(context));
      console.log(started.length);`);
    assert.deepEqual(lines, ['0', '1']);
  });

  test('does not keep the process alive, and programs can end in the middle of everything', async () => {
    const lines = await run(`
      const { draft2021: { ml, MLGraphBuilder } } = require(COMPAT);
      const builder = new MLGraphBuilder(ml.createContext());
      const y = new Float32Array(1);
      builder.build({ y: builder.neg(builder.constant(1)) }).compute({}, { y });
      console.log(y[0]);
      ml.createContext();`);
    assert.deepEqual(lines, ['-1']);
  });

  test('is one for each thread that uses the draft', async () => {
    const lines = await run(`
      const { Worker } = require('node:worker_threads');
      const program = \`
        const { draft2021: { ml, MLGraphBuilder } } = require(\${JSON.stringify(COMPAT)});
        const { parentPort, workerData } = require('node:worker_threads');
        const builder = new MLGraphBuilder(ml.createContext());
        const y = new Float32Array(1);
        builder.build({ y: builder.neg(builder.constant(workerData)) }).compute({}, { y });
        parentPort.postMessage(y[0]);\`;
      const results = [1, 2, 3].map((workerData) => new Promise((resolve, reject) => {
        new Worker(program, { eval: true, workerData }).on('message', resolve).on('error', reject);
      }));
      console.log((await Promise.all(results)).join(' '));`);
    assert.deepEqual(lines, ['-1 -2 -3']);
  });

  test('that has ended makes its contexts useless with an OperationError, and new ones start another', async () => {
    const lines = await run(`${watch}
      const { draft2021: { ml, MLGraphBuilder } } = require(COMPAT);
      const builder = new MLGraphBuilder(ml.createContext());
      const y = new Float32Array(1);
      const graph = builder.build({ y: builder.neg(builder.constant(1)) });
      await started[0].terminate();
      for (const call of [() => builder.constant(2), () => graph.compute({}, { y })]) {
        try { call(); } catch (error) { console.log(error.name, error.message); }
      }
      const second = new MLGraphBuilder(ml.createContext());
      second.build({ y: second.neg(second.constant(2)) }).compute({}, { y });
      console.log(y[0]);`);
    const ended = 'OperationError the thread that computes for contexts of the draft of 2021 has ended';
    assert.deepEqual(lines, [ended, ended, '-2']);
  });

  test('that dies while it is waited for does not hold its caller for ever', async () => {
    const lines = await run(`
      const threads = require('node:worker_threads');
      threads.Worker = class extends threads.Worker {
        constructor(file, options) { super('for (;;);', { ...options, eval: true }); }
      };
      const { wait } = Atomics;
      Atomics.wait = (memory, place, value) => wait(memory, place, value, 1); // in place of a second
      const { draft2021: { ml, MLGraphBuilder } } = require(COMPAT);
      try { new MLGraphBuilder(ml.createContext()); } catch (error) { console.log(error.name, error.message); }
      process.exit();`);
    assert.deepEqual(lines, ['OperationError the thread that computes for contexts of the draft of 2021 has ended']);
  });

  test('cannot be used where waiting is forbidden, and says so', async () => {
    const lines = await run(`
      Atomics.wait = () => { throw new TypeError('Atomics.wait cannot be called in this context'); };
      const { draft2021: { ml, MLGraphBuilder } } = require(COMPAT);
      try { new MLGraphBuilder(ml.createContext()); } catch (error) { console.log(error.name, error.message); }`);
    const message = 'the draft of 2021 computes synchronously, but this thread must not wait';
    assert.deepEqual(lines, [`NotSupportedError ${message}`]);
  });

  /** MiB that 40 rounds with constants of 16 MiB each, 640 in all, may leave behind: the last ones, and free pages. 48 were measured. */
  const GROWTH = 150;

  test('frees what nobody has any more', async (t) => {
    const grown = await resultOf(
      `import compat from ${JSON.stringify(new URL('../index.js', import.meta.url))};
      const { draft2021: { ml, MLGraphBuilder } } = compat;
      const values = new Float32Array(4 * 2 ** 20);
      const round = async () => {
        const context = ml.createContext();
        const builder = new MLGraphBuilder(context);
        const x = builder.constant({ type: 'float32', dimensions: [values.length] }, values);
        const y = new Float32Array(1);
        const product = builder.mul(x, builder.input('x', { type: 'float32' }));
        builder.build({ y: builder.reduceSum(product) }).compute({ x: Float32Array.of(1) }, { y });
      };
      for (let i = 0; i < 3; i++) { await round(); await helpers.collectGarbage(); }
      const before = process.memoryUsage.rss();
      const grown = () => (process.memoryUsage.rss() - before) / 2 ** 20;
      for (let i = 0; i < 40; i++) { values[0] = i; await round(); await helpers.collectGarbage(); }
      await helpers.collectUntil(() => grown() < ${GROWTH}, 'what nobody has is freed');
      console.log(grown());`,
      { flags: ['--expose-gc'] },
    );
    t.diagnostic(`${grown.toFixed(0)} MiB more`);
  });
});

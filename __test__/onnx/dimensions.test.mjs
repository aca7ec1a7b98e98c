// Names of dimensions: placeholders, names that contradict themselves, and the option strictDimensions.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import test, { after, before, describe } from 'node:test';
import { MLGraphBuilder, ml } from '../../index.js';
import { importModel, inputShapes, loadModel } from '../../onnx.js';
import { wrong } from '../lib/types.mjs';
import { FLOAT, node, value, writeModel } from './model-writer.mjs';

let context;
before(async () => {
  context = await ml.createContext({ accelerated: false });
});
after(() => context.destroy());

/** All that exporters write for a size that they do not know. */
const PLACEHOLDERS = [undefined, '', ' ', '?', '*', '-1', '-', 'None', 'none', 'NULL', 'dynamic', 'unk', 'nan'];

const ramp = (/** @type {number[]} */ ...shape) => ({ data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => i), shape });

/** y = relu(x), z = -w. */
const two = (/** @type {any[]} */ x, /** @type {any[]} */ w) =>
  writeModel({
    inputs: [value('x', FLOAT, x), value('w', FLOAT, w)],
    outputs: [value('y', FLOAT, x), value('z', FLOAT, w)],
    nodes: [node('Relu', ['x'], ['y']), node('Neg', ['w'], ['z'])],
  });

/** The warnings about dimensions while `work` runs. */
async function warningsOf(/** @type {() => Promise<unknown>} */ work) {
  /** @type {string[]} */
  const messages = [];
  const note = (/** @type {Error & { code?: string }} */ warning) => {
    if (warning.code === 'WARN_WEBNN_DIMENSIONS' && warning.name === 'OnnxWarning') messages.push(warning.message);
  };
  process.on('warning', note);
  await work();
  // Warnings are emitted in the order in which they were made.
  const last = once(process, 'warning');
  process.emitWarning('the last one');
  await last;
  process.off('warning', note);
  return messages;
}

describe('placeholders', () => {
  for (const name of PLACEHOLDERS) {
    test(`${JSON.stringify(name)} never means equal sizes`, async () => {
      const bytes = two([name, 3, name], [name, 'n']);
      for (const strictDimensions of [undefined, true, false]) {
        const warnings = await warningsOf(async () => {
          const model = await loadModel(bytes, { context, strictDimensions });
          assert.deepEqual(
            [...model.inputs, ...model.outputs].map(({ shape }) => shape),
            [
              ['x_dim_0', 3, 'x_dim_2'],
              ['w_dim_0', 'n'],
              ['y_dim_0', 3, 'y_dim_2'],
              ['z_dim_0', 'n'],
            ],
          );
          assert.deepEqual(model.inputs[0].declaredShape, [name ?? '', 3, name ?? '']);
          for (const [a, b, c, d] of [
            [2, 5, 4, 6],
            [2, 2, 2, 2],
            [1, 7, 3, 1],
          ]) {
            const { y, z } = await model.run({ x: ramp(a, 3, b), w: ramp(c, d) });
            assert.deepEqual(y, { ...ramp(a, 3, b), dataType: 'float32' });
            assert.deepEqual([z.shape, z.data[1]], [[c, d], -1]);
          }
          model.destroy();
        });
        assert.deepEqual(warnings, []);
      }
    });
  }

  test('have sizes of their own in options and in inputShapes()', async () => {
    const model = await loadModel(two(['?', 3, '?'], ['?']), { context, freeDimensions: { x_dim_0: 2, x_dim_2: 4 } });
    const { y, z } = await model.run({ x: ramp(2, 3, 4).data, w: Float32Array.of(1, 2) });
    assert.deepEqual([y.shape, z.shape], [[2, 3, 4], [2]]);
    const { shapes, freeDimensions } = inputShapes(model.inputs, { shapes: { x: [2, 3, 4], w: [7] } });
    assert.deepEqual(
      [shapes, freeDimensions],
      [
        { x: [2, 3, 4], w: [7] },
        { x_dim_0: 2, x_dim_2: 4, w_dim_0: 7 },
      ],
    );
    model.destroy();
    const declared = [
      { name: 'x', shape: ['?', '?'] },
      { name: 'w', shape: ['?'] },
    ];
    assert.deepEqual(inputShapes(declared, { shapes: { x: [2, 3] } }).shapes, { x: [2, 3], w: ['w_dim_0'] });
    await assert.rejects(loadModel(two(['?'], ['?']), { context, freeDimensions: { '?': 2 } }), {
      code: 'ERR_WEBNN_UNKNOWN_DIMENSION',
      message: /the model has "w_dim_0", "x_dim_0"/,
    });
  });
});

describe('a name with several sizes', () => {
  const bytes = two(['n', 'm'], ['m', 'n', 'n']);
  const feeds = () => ({ x: ramp(2, 3), w: ramp(5, 2, 7) });
  const message =
    /^run: the dimension "m" is 3 in "x" at \[1\], 5 in "w" at \[0\]; the dimension "n" is 2 in "x" at \[0\], 7 in "w" at \[2\]\. .*strictDimensions: true .* false /;

  test('runs, with one warning for each model', async () => {
    const warnings = await warningsOf(async () => {
      const model = await loadModel(bytes, { context });
      for (let i = 0; i < 3; i++) {
        const { y, z } = await model.run(feeds());
        assert.deepEqual([y.shape, z.shape, z.data[69]], [[2, 3], [5, 2, 7], -69]);
        // The same sizes, and other contradictions, are compiled for themselves.
        assert.deepEqual((await model.run({ x: ramp(2, 2), w: ramp(2, 2, 2) })).z.shape, [2, 2, 2]);
        assert.deepEqual((await model.run({ x: ramp(4, 1), w: ramp(1, 4, 2) })).z.shape, [1, 4, 2]);
      }
      model.destroy();
    });
    assert.equal(warnings.length, 1);
    assert.match(warnings[0], message);
  });

  test('is found by compile() and describe() as well, and with tensors and results as feeds', async () => {
    for (const work of /** @type {((model: any) => Promise<unknown>)[]} */ ([
      (model) => model.compile({ x: [2, 3], w: [5, 2, 7] }),
      (model) => model.describe({ x: [2, 3], w: [5, 2, 7] }),
      (model) => model.profile(feeds()),
      async (model) => {
        const [x, w] = await Promise.all([
          context.createTensor({ dataType: 'float32', shape: [2, 3] }),
          context.createTensor({ dataType: 'float32', shape: [5, 2, 7] }),
        ]);
        await model.run({ x, w });
      },
    ])) {
      const warnings = await warningsOf(async () => {
        const model = await loadModel(bytes, { context });
        await work(model);
        model.destroy();
      });
      assert.equal(warnings.length, 1);
    }
  });

  test('is no matter, or an error, as strictDimensions says', async () => {
    const warnings = await warningsOf(async () => {
      const loose = await loadModel(bytes, { context, strictDimensions: false });
      assert.deepEqual((await loose.run(feeds())).z.shape, [5, 2, 7]);
      loose.destroy();
      const strict = await loadModel(bytes, { context, strictDimensions: true });
      await assert.rejects(strict.run(feeds()), {
        code: 'ERR_WEBNN_SHAPE',
        message: /^run: "w" has shape \[5, 2, 7\], expected \[m=3, n=2, n=2\], since strictDimensions is true: "x" has [nm]=/,
      });
      await assert.rejects(strict.compile({ x: [2, 3], w: [5, 2, 7] }), { code: 'ERR_WEBNN_SHAPE', message: /strictDimensions/ });
      assert.deepEqual((await strict.run({ x: ramp(2, 3), w: ramp(3, 2, 2) })).z.shape, [3, 2, 2]);
      strict.destroy();
    });
    assert.deepEqual(warnings, []);
    for (const strictDimensions of [wrong(1), wrong('true'), wrong(null)]) {
      const error = { name: 'TypeError', code: 'ERR_WEBNN_TYPE', message: /strictDimensions is (1|"true"|null), expected a boolean/ };
      await assert.rejects(loadModel(bytes, { context, strictDimensions }), error);
      assert.throws(() => inputShapes([], { strictDimensions }), error);
    }
    await assert.rejects(loadModel(bytes, wrong({ context, looseDimensions: true })), { code: 'ERR_WEBNN_UNKNOWN_OPTION', message: /strictDimensions/ });
  });

  test('is refused where freeDimensions sets it, with the name of the option', async () => {
    for (const strictDimensions of [undefined, true, false]) {
      const model = await loadModel(bytes, { context, freeDimensions: { n: 2 }, strictDimensions });
      const contradicting = { x: ramp(2, 3), w: ramp(3, 2, 7) };
      await assert.rejects(model.run(contradicting), { code: 'ERR_WEBNN_SHAPE', message: /"w" has shape \[3, 2, 7\], .*freeDimensions sets n/ });
      model.destroy();
    }
  });

  test('completes no shape of another input', () => {
    const inputs = [
      { name: 'a', shape: ['n'] },
      { name: 'b', shape: ['n', 'm'] },
      { name: 'c', shape: ['n', 'm'] },
    ];
    const known = { shapes: { a: [2], b: [3, 4] } };
    assert.throws(() => inputShapes(inputs, known), { code: 'ERR_WEBNN_SHAPE', message: /strictDimensions/ });
    const { shapes, freeDimensions } = inputShapes(inputs, { ...known, strictDimensions: false });
    assert.deepEqual([shapes, freeDimensions], [{ a: [2], b: [3, 4], c: ['n', 4] }, { m: 4 }]);
  });

  test('of operands is taken by importModel(), or refused with strictDimensions', async () => {
    const build = (/** @type {object} */ options) => {
      const builder = new MLGraphBuilder(context);
      const x = builder.input('x', { dataType: 'float32', shape: [2, 3] });
      const w = builder.input('w', { dataType: 'float32', shape: [5, 2, 7] });
      return importModel(builder, bytes, { x, w }, options);
    };
    assert.deepEqual(build({}).z.shape, [5, 2, 7]);
    assert.throws(() => build({ strictDimensions: true }), { code: 'ERR_WEBNN_SHAPE', message: /since strictDimensions is true/ });
  });
});

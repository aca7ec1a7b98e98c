// Nothing of the earlier drafts reaches today's API, and programs that expect globals get those of a draft.

import assert from 'node:assert/strict';
import test from 'node:test';
import { root } from '../../../scripts/process.mjs';
import { runNode } from '../../../__test__/lib/processes.mjs';

/** Runs a program that finds the package as `root`; what it gives to `report`. */
async function run(program, env = {}) {
  const source = `
    const root = ${JSON.stringify(root)};
    const report = (value) => console.log(JSON.stringify(value));
    (async () => {${program}})();`;
  const { code, stdout, stderr } = await runNode(['--eval', source], { env });
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

test('importing the drafts changes nothing of the interfaces, and no global', async () => {
  const { before, after, globals } = await run(`
    const webnn = require(root + '/index.js');
    const shapeOf = (object) => Reflect.ownKeys(object).map((key) => {
      const { value, ...attributes } = Object.getOwnPropertyDescriptor(object, key);
      return [String(key), typeof value, String(value), attributes];
    });
    const objects = Object.values(webnn).flatMap((value) => [value, value.prototype]).filter(Boolean);
    const snapshot = () => objects.map(shapeOf);
    const names = Reflect.ownKeys(globalThis);
    const before = snapshot();
    const { draft2021, draft2024 } = require(root + '/packages/compat/index.js');
    const builder = new draft2021.MLGraphBuilder(draft2021.ml.createContext());
    builder.relu(builder.constant(1));
    new draft2024.MLGraphBuilder(await draft2024.ml.createContext());
    report({ before, after: snapshot(), globals: Reflect.ownKeys(globalThis).length - names.length });`);
  assert.deepEqual(after, before);
  assert.equal(globals, 0);
});

test('the main entry loads nothing of the drafts', async () => {
  const loaded = await run(`
    require(root + '/index.js');
    const { relative, sep } = require('node:path');
    report(Object.keys(require.cache).map((file) => relative(root, file).split(sep).join('/')));`);
  assert.ok(loaded.includes('lib/builder.js'));
  assert.deepEqual(
    loaded.filter((file) => file.startsWith('packages/')),
    [],
  );
});

test('today has none of the methods of the drafts', async () => {
  const found = await run(`
    const { ml, MLContext, MLGraph, MLGraphBuilder } = require(root + '/index.js');
    require(root + '/packages/compat/index.js');
    const builder = new MLGraphBuilder(await ml.createContext());
    const methods = ['squeeze', 'resample'].map((name) => name in builder);
    report(['compute' in MLContext.prototype, 'compute' in MLGraph.prototype, ...methods]);`);
  assert.deepEqual(found, [false, false, false, false]);
});

test('install() defines navigator.ml and the globals of the draft of 2021', async () => {
  const result = await run(`
    const { draft2021, install } = require(root + '/packages/compat/index.js');
    install(draft2021);
    const { enumerable, writable, configurable } = Object.getOwnPropertyDescriptor(globalThis, 'MLGraphBuilder');
    const context = navigator.ml.createContext();
    const builder = new MLGraphBuilder(context);
    const output = new Float32Array(1);
    const five = builder.constant({ type: 'float32', dimensions: [1] }, Float32Array.of(5));
    builder.build({ output: builder.squeeze(five) }).compute({}, { output });
    const found = [navigator.ml === navigator.ml, context instanceof MLContext, typeof MLTensor];
    report([output[0], ...found, enumerable, writable, configurable]);`);
  assert.deepEqual(result, [5, true, true, 'undefined', false, true, true]);
});

test('install() defines navigator.ml and the globals of the draft of 2024, over those of another', async () => {
  const result = await run(`
    require(root + '/auto.js');
    const { draft2021, draft2024, install } = require(root + '/packages/compat/index.js');
    install(draft2021);
    install(draft2024);
    const context = await navigator.ml.createContext({ deviceType: 'cpu' });
    const builder = new MLGraphBuilder(context);
    const graph = await builder.build({ y: builder.neg(builder.input('x', { dataType: 'float32', dimensions: [1] })) });
    const { outputs } = await context.compute(graph, { x: Float32Array.of(5) }, { y: new Float32Array(1) });
    const found = [outputs.y[0], graph instanceof MLGraph, builder.relu() instanceof MLActivation];
    install(draft2021);
    report([...found, typeof MLActivation]);`);
  assert.deepEqual(result, [-5, true, true, 'undefined']);
});

test('install() leaves nothing of another draft, and may be called again', async () => {
  const result = await run(`
    const { draft2021, draft2024, install } = require(root + '/packages/compat/index.js');
    const names = ['ML', 'MLContext', 'MLGraph', 'MLGraphBuilder', 'MLOperand', 'MLTensor', 'MLActivation'];
    const defined = () => names.filter((name) => name in globalThis);
    const told = [draft2024, draft2024, draft2021, draft2021, draft2024].map((draft) => {
      install(draft);
      return [navigator.ml === draft.ml, defined().every((name) => globalThis[name] === draft[name]), defined().at(-1)];
    });
    report(told);`);
  const [of2021, of2024] = ['MLOperand', 'MLActivation'].map((last) => [true, true, last]);
  assert.deepEqual(result, [of2024, of2024, of2021, of2021, of2024]);
});

test('a GPU is used where a program asks for a device that is one, or for high performance and leaves the device open', async () => {
  // With this value of the variable, contexts that ask for a GPU are refused, whatever hardware there is.
  const result = await run(
    `
    const { draft2021, draft2024 } = require(root + '/packages/compat/index.js');
    const preferences = [undefined, 'low-power', 'high-performance'];
    const asks = { draft2021: {}, draft2024: {} };
    for (const devicePreference of ['default', 'gpu', 'cpu']) {
      asks.draft2021[devicePreference] = preferences.map((powerPreference) => {
        try {
          new draft2021.MLGraphBuilder(draft2021.ml.createContext({ devicePreference, powerPreference }));
          return false;
        } catch ({ name }) {
          return name === 'NotSupportedError';
        }
      });
    }
    for (const deviceType of ['cpu', 'gpu', 'npu']) {
      asks.draft2024[deviceType] = await Promise.all(preferences.map((powerPreference) =>
        draft2024.ml.createContext({ deviceType, powerPreference }).then(() => false, ({ name }) => name === 'NotSupportedError')));
    }
    report(asks);`,
    { WEBNN_GPU_SOFTWARE: 'refused' },
  );
  const [never, always] = [false, true].map((asks) => [asks, asks, asks]);
  assert.deepEqual(result, {
    draft2021: { default: [false, false, true], gpu: always, cpu: never },
    draft2024: { cpu: never, gpu: always, npu: always },
  });
});

test('install() takes nothing else', async () => {
  const messages = await run(`
    const { install } = require(root + '/packages/compat/index.js');
    const told = (value) => { try { install(value); } catch (error) { return error.name + ' ' + error.message; } };
    report([undefined, '2021', {}, { MLGraphBuilder: class {}, ml: {} }].map(told));`);
  for (const message of messages) assert.equal(message, 'TypeError install: draft is not an earlier draft, expected draft2021 or draft2024');
});

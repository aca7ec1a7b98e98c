import assert from 'node:assert/strict';
import { test } from 'node:test';
import { root } from '../../scripts/process.mjs';
import { runNode } from '../lib/processes.mjs';
import { moduleArguments } from '../runtime/helpers.mjs';

const NAMES = ['ML', 'MLContext', 'MLGraph', 'MLGraphBuilder', 'MLOperand', 'MLTensor'];

/** Bun's navigator is a plain object, which is left its own property; where there is none, one with a class is made. */
const navigatorHasClass = globalThis.navigator === undefined || Object.getPrototypeOf(globalThis.navigator) !== Object.prototype;

/** Runs a script in a process of its own and returns what it prints as JSON. */
async function run(source, type = 'commonjs') {
  const args = type === 'module' ? moduleArguments(source) : ['--input-type=commonjs', '-e', source];
  const { code, stdout, stderr } = await runNode(args, { cwd: root });
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

test('the package can be required and imported under its name', async () => {
  const expected = [...NAMES, 'ml'].sort();
  assert.deepEqual(await run(`console.log(JSON.stringify(Object.keys(require('webnn-node')).sort()))`), expected);
  const imported = await run(
    `import { ml, ${NAMES.join(', ')} } from 'webnn-node';
     import all from 'webnn-node';
     console.log(JSON.stringify([all.ml === ml, ${NAMES.join(', ')}].map((x) => x.name ?? x)))`,
    'module',
  );
  assert.deepEqual(imported, [true, ...NAMES]);
});

test('requiring the package defines no globals', async () => {
  assert.deepEqual(
    await run(`require('webnn-node');
         console.log(JSON.stringify(${JSON.stringify(NAMES)}.filter((name) => name in globalThis)))`),
    [],
  );
});

for (const [type, load] of [
  ['commonjs', `require('webnn-node/auto'); const api = require('webnn-node');`],
  ['module', `import 'webnn-node/auto'; import api from 'webnn-node';`],
]) {
  test(`auto installs navigator.ml and the interfaces (${type})`, async () => {
    const result = await run(
      `${load}
       const names = ${JSON.stringify(NAMES)};
       const holder = Object.hasOwn(navigator, 'ml') ? navigator : Object.getPrototypeOf(navigator);
       const descriptor = Object.getOwnPropertyDescriptor(holder, 'ml');
       let brand;
       try { descriptor.get.call({}); } catch (error) { brand = error instanceof TypeError; }
       console.log(JSON.stringify({
         same: navigator.ml === navigator.ml,
         own: navigator.ml instanceof api.ML && navigator.ml !== api.ml,
         onPrototype: holder !== navigator,
         attribute: [descriptor.enumerable, descriptor.configurable, descriptor.set === undefined, descriptor.get.name],
         brand,
         globals: names.map((name) => {
           const { value, ...attributes } = Object.getOwnPropertyDescriptor(globalThis, name);
           return [value === api[name], attributes];
         }),
       }))`,
      type,
    );
    assert.deepEqual(result, {
      same: true,
      own: true,
      onPrototype: navigatorHasClass,
      attribute: [true, true, true, 'get ml'],
      brand: true,
      globals: NAMES.map(() => [true, { writable: true, enumerable: false, configurable: true }]),
    });
  });
}

test('a navigator that auto creates says what runtime this is, and has ml, a class and nothing else', async () => {
  const result = await run(
    `delete globalThis.navigator;
     delete globalThis.Navigator;
     require('webnn-node/auto');
     const keys = [];
     for (const key in navigator) keys.push(key);
     const { value, ...attributes } = Object.getOwnPropertyDescriptor(globalThis, 'Navigator');
     const refusals = [() => new Navigator(), () => Navigator(), () => Navigator.prototype.ml].map((call) => {
       try { call(); } catch (error) { return error instanceof TypeError; }
     });
     console.log(JSON.stringify({
       keys,
       string: String(navigator),
       userAgent: navigator.userAgent,
       hardwareConcurrency: navigator.hardwareConcurrency === undefined,
       class: value === navigator.constructor && Object.getPrototypeOf(navigator) === value.prototype,
       own: Reflect.ownKeys(navigator),
       attributes,
       refusals,
     }))`,
  );
  assert.deepEqual(result, {
    keys: ['userAgent', 'ml'],
    string: '[object Navigator]',
    userAgent: `Node.js/${process.versions.node.split('.')[0]}`,
    hardwareConcurrency: true,
    class: true,
    own: [],
    attributes: { writable: true, enumerable: false, configurable: true },
    refusals: [true, true, true],
  });
});

// Workers of Deno and all of Bun have a navigator and no Navigator.
test('auto serves worker threads, each with an ml of its own', async () => {
  const result = await run(
    `require('webnn-node/auto');
     const { Worker } = require('node:worker_threads');
     const worker = new Worker(
       \`require('webnn-node/auto');
        const { parentPort } = require('node:worker_threads');
        navigator.ml.createContext().then((context) => {
          const hasClass = globalThis.Navigator === undefined || navigator instanceof Navigator;
          parentPort.postMessage([hasClass, context instanceof MLContext, String(navigator.ml)]);
          context.destroy();
        });\`,
       { eval: true },
     );
     worker.on('message', (message) => console.log(JSON.stringify(message)));`,
  );
  assert.deepEqual(result, [true, true, '[object ML]']);
});

test('auto defines GPUDevice for those who ask whether something is one', async () => {
  // Deno has WebGPU, and its GPUDevice is left alone: the test takes it away.
  const result = await run(
    `delete globalThis.GPUDevice;
     const hadGpu = globalThis.navigator !== undefined && 'gpu' in navigator;
     require('webnn-node/auto');
     const { value, ...attributes } = Object.getOwnPropertyDescriptor(globalThis, 'GPUDevice');
     let message;
     try { new GPUDevice(); } catch (error) { message = [error instanceof TypeError, error.message]; }
     console.log(JSON.stringify([
       attributes, {} instanceof GPUDevice, navigator.ml instanceof GPUDevice, String(GPUDevice.prototype),
       ('gpu' in navigator) === hadGpu, message]))`,
  );
  assert.deepEqual(result, [
    { writable: true, enumerable: false, configurable: true },
    false,
    false,
    '[object GPUDevice]',
    true,
    [true, 'Illegal constructor: GPUDevice objects are not created with new'],
  ]);
});

test('a GPUDevice that replaces the one of auto is the one that createContext() asks for', async () => {
  const result = await run(
    `require('webnn-node/auto');
     globalThis.GPUDevice = class GPUDevice {};
     navigator.ml.createContext(new GPUDevice()).catch(({ name }) => console.log(JSON.stringify(name)));`,
  );
  assert.equal(result, 'NotSupportedError');
});

test('what a runtime provides is left alone', async () => {
  const result = await run(
    `class MLContext {}
     class GPUDevice {}
     Object.assign(globalThis, { MLContext, GPUDevice });
     Object.defineProperty(globalThis, 'navigator', { value: { ml: 'native' }, configurable: true });
     require('webnn-node/auto');
     console.log(JSON.stringify(
       [globalThis.MLContext === MLContext, globalThis.GPUDevice === GPUDevice, navigator.ml, typeof globalThis.MLTensor]))`,
  );
  assert.deepEqual(result, [true, true, 'native', 'function']);
});

test('a navigator without a class of its own gets an own property', async () => {
  const result = await run(
    `Object.defineProperty(globalThis, 'navigator', { value: {}, configurable: true });
     require('webnn-node/auto');
     console.log(JSON.stringify([navigator.ml instanceof require('webnn-node').ML, 'ml' in Object.prototype]))`,
  );
  assert.deepEqual(result, [true, false]);
});

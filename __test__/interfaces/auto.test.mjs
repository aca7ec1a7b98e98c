import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const NAMES = ['ML', 'MLContext', 'MLGraph', 'MLGraphBuilder', 'MLOperand', 'MLTensor'];

/** Bun's navigator is a plain object, which is left its own property; where there is none, one with a class is made. */
const navigatorHasClass =
  globalThis.navigator === undefined || Object.getPrototypeOf(globalThis.navigator) !== Object.prototype;

/** Runs a script in a process of its own and returns what it prints as JSON. */
function run(source, type = 'commonjs') {
  // Deno's -e takes CommonJS only.
  const isDenoModule = process.versions.deno !== undefined && type === 'module';
  const args = isDenoModule ? ['eval', source] : [`--input-type=${type}`, '-e', source];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

test('the package can be required and imported under its name', () => {
  const expected = [...NAMES, 'ml'].sort();
  assert.deepEqual(run(`console.log(JSON.stringify(Object.keys(require('webnn-node')).sort()))`), expected);
  const imported = run(
    `import { ml, ${NAMES.join(', ')} } from 'webnn-node';
     import all from 'webnn-node';
     console.log(JSON.stringify([all.ml === ml, ${NAMES.join(', ')}].map((x) => x.name ?? x)))`,
    'module',
  );
  assert.deepEqual(imported, [true, ...NAMES]);
});

test('requiring the package defines no globals', () => {
  assert.deepEqual(
    run(`require('webnn-node');
         console.log(JSON.stringify(${JSON.stringify(NAMES)}.filter((name) => name in globalThis)))`),
    [],
  );
});

for (const [type, load] of [
  ['commonjs', `require('webnn-node/auto'); const api = require('webnn-node');`],
  ['module', `import 'webnn-node/auto'; import api from 'webnn-node';`],
]) {
  test(`auto installs navigator.ml and the interfaces (${type})`, () => {
    const result = run(
      `${load}
       const names = ${JSON.stringify(NAMES)};
       const holder = Object.hasOwn(navigator, 'ml') ? navigator : Object.getPrototypeOf(navigator);
       const descriptor = Object.getOwnPropertyDescriptor(holder, 'ml');
       let brand;
       try { descriptor.get.call({}); } catch (error) { brand = error instanceof TypeError; }
       console.log(JSON.stringify({
         same: navigator.ml === api.ml && navigator.ml === navigator.ml,
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
      onPrototype: navigatorHasClass,
      attribute: [true, true, true, 'get ml'],
      brand: true,
      globals: NAMES.map(() => [true, { writable: true, enumerable: false, configurable: true }]),
    });
  });
}

test('a navigator that auto creates has nothing but ml', () => {
  const keys = run(
    `delete globalThis.navigator;
     require('webnn-node/auto');
     const keys = [];
     for (const key in navigator) keys.push(key);
     console.log(JSON.stringify([keys, String(navigator), navigator.hardwareConcurrency === undefined]))`,
  );
  assert.deepEqual(keys, [['ml'], '[object Navigator]', true]);
});

test('what a runtime provides is left alone', () => {
  const result = run(
    `class MLContext {}
     globalThis.MLContext = MLContext;
     Object.defineProperty(globalThis, 'navigator', { value: { ml: 'native' }, configurable: true });
     require('webnn-node/auto');
     console.log(JSON.stringify([globalThis.MLContext === MLContext, navigator.ml, typeof globalThis.MLTensor]))`,
  );
  assert.deepEqual(result, [true, 'native', 'function']);
});

test('a navigator without a class of its own gets an own property', () => {
  const result = run(
    `Object.defineProperty(globalThis, 'navigator', { value: {}, configurable: true });
     require('webnn-node/auto');
     console.log(JSON.stringify([navigator.ml === require('webnn-node').ml, 'ml' in Object.prototype]))`,
  );
  assert.deepEqual(result, [true, false]);
});

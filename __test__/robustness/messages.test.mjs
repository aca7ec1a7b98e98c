// Messages of errors follow one rule, docs/errors.md#messages: those that programs provoke here, and the strings in the source that
// all messages are made of.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MLGraphBuilder, ml } from '../../index.js';
import { inputShapes, inspectModel, loadModel } from '../../onnx.js';
import { root } from '../../scripts/process.mjs';
import { temporaryFolder } from '../lib/folders.mjs';
import { faultsInSource, faultsOf, faultsOfArgument } from '../lib/messages.mjs';
import { INT64, node, value, writeModel } from '../onnx/model-writer.mjs';
import { scaling } from './provocations.mjs';

let context;
before(async () => {
  context = await ml.createContext({ accelerated: false });
});
after(() => context.destroy());

const x = { data: Float32Array.of(1, 2), shape: [1, 2] };
const scale = Float32Array.of(2);

/** y = ids, of shape [batch, width]. */
const integers = () =>
  writeModel({
    inputs: [value('ids', INT64, ['batch', 'width'])],
    outputs: [value('y', INT64, ['batch', 'width'])],
    nodes: [node('Identity', ['ids'], ['y'])],
  });

/**
 * @param {() => unknown} use
 * @returns {Promise<any>} the error that it fails with
 */
async function errorOf(use) {
  try {
    await use();
  } catch (error) {
    return error;
  }
  throw new Error(`${use} does not fail`);
}

/**
 * Wrong arguments, and the whole message about each.
 *
 * @type {[string, (models: { scaling: any, integers: any, load: (source: unknown, options?: object) => Promise<any> }) => unknown][]}
 */
const ARGUMENTS = [
  ['run: feed "x" is an array, expected a Float32Array for float32, as in Float32Array.from(values)', ({ scaling }) => scaling.run({ x: [1, 2], scale })],
  [
    'run: feed "ids" is an array, expected a BigInt64Array for int64, as in BigInt64Array.from(values, BigInt)',
    ({ integers }) => integers.run({ ids: { data: [1], shape: [1, 1] } }),
  ],
  [
    'run: feed "ids" is an Int32Array, expected a BigInt64Array for int64, or a Uint8Array or a buffer of bytes',
    ({ integers }) => integers.run({ ids: Int32Array.of(1) }),
  ],
  ['run: feed "x" is "1 2", expected a typed array, a buffer, an MLTensor or { data, shape }', ({ scaling }) => scaling.run({ x: '1 2', scale })],
  [
    'run: feed "x" has data but no shape, expected { data, shape } with a list of sizes; its dims are called shape here',
    ({ scaling }) => scaling.run({ x: { data: x.data, dims: [1, 2] }, scale }),
  ],
  ['run: feed "x": shape is "1,2", expected a list of sizes', ({ scaling }) => scaling.run({ x: { data: x.data, shape: '1,2' }, scale })],
  [
    'run: fetches is an array, expected an object by output name: null drops an output, "tensor" keeps it on the device, and others are returned',
    ({ scaling }) => scaling.run({ x, scale }, ['y']),
  ],
  ['run: fetch "y" is 5, expected an MLTensor, "tensor" or null', ({ scaling }) => scaling.run({ x, scale }, { y: 5 })],
  ['compile: shapes["x"] is 5, expected a list of sizes', ({ scaling }) => scaling.compile({ x: 5 })],
  ['loadModel: numThreads is 0, expected 1 to 1024', ({ load }) => load(scaling(), { device: 'cpu', numThreads: 0 })],
  ['loadModel: numThreads is "two", expected an integer from 0 to 4294967295', ({ load }) => load(scaling(), { numThreads: 'two' })],
  ['loadModel: device is 5, expected "auto", "cpu" or "gpu"', ({ load }) => load(scaling(), { device: 5 })],
  ['loadModel: freeDimensions["batch"] is "1", expected a number', ({ load }) => load(scaling(), { freeDimensions: { batch: '1' } })],
  [
    'loadModel: constant "scale" is an array, expected a typed array, as in Float32Array.from(values)',
    ({ load }) => load(scaling(), { constants: { scale: [2] } }),
  ],
  ['loadModel: context is an object, expected an MLContext', ({ load }) => load(scaling(), { context: {} })],
  ['loadModel: the model is undefined, expected a path, a file URL or bytes', ({ load }) => load(undefined)],
  ['loadModel: the model is a promise, expected a path, a file URL or bytes: await it first', ({ load }) => load(Promise.resolve(scaling()))],
  ['loadModel: the model is an object, expected a path, a file URL or bytes: pass what its arrayBuffer() resolves with', ({ load }) => load(new Response('x'))],
  [
    'loadModel: the model is at "s3://bucket/model.onnx", expected a path, a file URL or bytes: nothing is downloaded; fetch it and pass its bytes',
    ({ load }) => load('s3://bucket/model.onnx'),
  ],
  [
    'loadModel: "file:model.onnx" is relative, expected an absolute file URL, as in new URL("model.onnx", import.meta.url)',
    ({ load }) => load('file:model.onnx'),
  ],
  [
    'inspectModel: externalData "w": the model is an array, expected a path, a file URL or bytes',
    () => inspectModel(scaling(), /** @type {any} */ ({ externalData: { w: [1] } })),
  ],
  ['loadModel: the path has 0 characters, expected 1 to 32767', ({ load }) => load('')],
  ['inputShapes: shapes["x"] is 5, expected an iterable object', () => inputShapes([{ name: 'x', shape: [1] }], /** @type {any} */ ({ shapes: { x: 5 } }))],
  [
    'softmax: axis is "x", expected an integer from 0 to 4294967295',
    () => {
      const builder = new MLGraphBuilder(context);
      builder.softmax(builder.input('x', { dataType: 'float32', shape: [2] }), /** @type {any} */ ('x'));
    },
  ],
];

test('a wrong argument is answered with what came, what was expected, and the line of the program', async (t) => {
  const models = { scaling: await loadModel(scaling(), { context }), integers: await loadModel(integers(), { context }), load: /** @type {any} */ (loadModel) };
  t.after(() => [models.scaling, models.integers].forEach((model) => model.destroy()));
  for (const [message, use] of ARGUMENTS) {
    const error = await errorOf(() => use(models));
    assert.equal(error.message, message);
    assert.equal(error.constructor, TypeError);
    assert.deepEqual(faultsOfArgument(message), []);
    assert.ok(error.stack.includes(path.basename(fileURLToPath(import.meta.url))), error.stack);
  }
});

test('the stack of an exception of the program itself stays as it is', async (t) => {
  const model = await loadModel(scaling(), { context });
  t.after(() => model.destroy());
  const own = new TypeError('mine');
  const { stack } = own;
  const feeds = {
    get x() {
      throw own;
    },
  };
  assert.equal(await errorOf(() => model.run(/** @type {any} */ (feeds))), own);
  assert.equal(own.stack, stack);
});

test('a shape that a feed lacks is named with how to pass it', async (t) => {
  const model = await loadModel(integers(), { context });
  t.after(() => model.destroy());
  const { code, message } = await errorOf(() => model.run({ ids: BigInt64Array.of(1n, 2n) }));
  assert.equal(message, 'run: "ids" has free sizes, [batch, width]: pass its shape as { data, shape }, or set freeDimensions');
  assert.equal(code, 'ERR_WEBNN_SHAPE');
});

test('what is wrong with a file is said in words', async (t) => {
  const folder = temporaryFolder(t, {});
  const file = (/** @type {string} */ name, /** @type {string | Uint8Array} */ bytes) => {
    const target = path.join(folder, name);
    writeFileSync(target, bytes);
    return target;
  };
  const bytes = scaling();
  const working = process.cwd();
  /** @type {[string, string, string][]} */
  const cases = [
    ['model.onnx', 'ERR_WEBNN_MODEL_NOT_FOUND', `loadModel: there is no file "model.onnx" in the working directory "${working}"`],
    [path.join(folder, 'none.onnx'), 'ERR_WEBNN_MODEL_NOT_FOUND', `loadModel: there is no file "${path.join(folder, 'none.onnx')}"`],
    [
      path.join('Xenova', 'all-MiniLM-L6-v2'),
      'ERR_WEBNN_MODEL_NOT_FOUND',
      `loadModel: there is no file "${path.join('Xenova', 'all-MiniLM-L6-v2')}" in the working directory "${working}": models are files, nothing is downloaded by name`,
    ],
    [folder, 'ERR_WEBNN_MODEL_NOT_FOUND', `loadModel: "${folder}" is a folder, expected a file`],
    [file('empty.onnx', ''), 'ERR_WEBNN_MODEL_INVALID', 'not an ONNX file: it is empty'],
    [file('random.onnx', Uint8Array.of(0xff, 0xfe, 0x12, 0x34, 0x56, 0x78)), 'ERR_WEBNN_MODEL_INVALID', 'not an ONNX file: '],
    [file('cut.onnx', bytes.subarray(0, bytes.length >> 1)), 'ERR_WEBNN_MODEL_INVALID', 'the file is cut off: download or copy it again'],
    [file('page.onnx', '<!doctype html>'), 'ERR_WEBNN_MODEL_INVALID', 'not an ONNX file: it seems to be HTML or XML'],
  ];
  for (const [source, code, expected] of cases) {
    const error = await errorOf(() => loadModel(source));
    const whole = code === 'ERR_WEBNN_MODEL_NOT_FOUND' ? expected : `"${source}": ${expected}`;
    assert.ok(error.message === whole || (expected.endsWith(': ') && error.message.startsWith(whole)), error.message);
    assert.equal(error.code, code);
    assert.deepEqual(faultsOf(error.message), []);
  }
  assert.throws(() => inspectModel('model.onnx'), { message: /^inspectModel: there is no file "model\.onnx"/ });
});

test('the check finds what the rule forbids', () => {
  const wrong = [
    "the output 'y' is not a value of the model",
    'feed "x" has 1 elements',
    'feed "x" has 12 element',
    'feed "x" is a Int32Array',
    'feed "x" is an Float32Array',
    'context is a MLContext',
    'numThreads is 0.',
    'loadModel: : no file',
    'loadModel:: no file',
    'no file (os error 2)',
  ];
  for (const message of wrong) assert.equal(faultsOf(message).length, 1, `${message}: ${faultsOf(message)}`);
  const right = [
    'run: feed "it\'s 1 elements." has 1 element, expected an MLTensor',
    "[a.] conv2d: the model's x has 21 bytes",
    'a one, a Uint8Array or an ONNX file',
  ];
  for (const message of right) assert.deepEqual(faultsOf(message), []);
  assert.equal(faultsOfArgument('there is no model').length, 2);
  for (const source of [
    `throw new TypeError(\`x is a \${kind}\`)`,
    `codedError('ERR', \`x has \${n} bytes\`)`,
    `new TypeError(\`'\${name}' is\`)`,
    "new OnnxError('no file.')",
  ]) {
    assert.equal(faultsInSource(source, false).length, 1, source);
  }
  const rust =
    'f(format!("the \'{name}\'"));\n#[cfg(test)]\nmod tests {\n    f(format!("a {kind}"));\n}\nf(format!("{n} bytes of {MAX} bytes, more than {m} bytes"));';
  assert.equal(faultsInSource(rust, true).length, 2);
});

const FOLDERS = ['lib', 'src', 'packages/compat/lib', 'packages/serve/lib'];

/** Tests, and what writes programs. */
const OTHERS = /(^|[/_])tests?\.rs$|_tests\.rs$|testing\.rs$|on_software_vulkan\.rs$|simulate/;

test('no string of a message in the source breaks the rule', () => {
  for (const folder of FOLDERS) {
    const names = readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).filter((name) => /\.(js|rs)$/.test(name) && !OTHERS.test(name));
    assert.ok(names.length > 5, folder);
    for (const name of names)
      assert.deepEqual(faultsInSource(readFileSync(path.join(root, folder, name), 'utf8'), name.endsWith('.rs')), [], `${folder}/${name}`);
  }
});

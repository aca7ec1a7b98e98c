import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test, { after, before, describe } from 'node:test';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import { temporaryFolder } from '../lib/folders.mjs';
import { MLGraphBuilder, ml } from '../../index.js';
import { OnnxError, OnnxModel, importModel, inspectModel, loadModel, supportedOperators, unsupportedOperators } from '../../onnx.js';
import { systemInfo } from '../../inspect.js';
import { BOOL, FLOAT, INT64, STRING, externalWeight, node, value, weight, writeModel } from './model-writer.mjs';
import { defined, wrong } from '../lib/types.mjs';

const floats = (...numbers) => Float32Array.from(numbers);

/** y = x * 2 + b for x of shape [batch, width]. */
const affine = (width = 3) =>
  writeModel({
    inputs: [value('x', FLOAT, ['batch', width])],
    outputs: [value('y', FLOAT, ['batch', width])],
    weights: [weight('two', [], floats(2)), weight('b', [3], floats(1, 10, 100))],
    nodes: [node('Mul', ['x', 'two'], ['m']), node('Add', ['m', 'b'], ['y'], {}, 'plus')],
  });

/** A cache that grows: present = past ++ x along the first axis, total = the sum of everything. */
const growing = () =>
  writeModel({
    inputs: [value('past', FLOAT, ['n', 2]), value('x', FLOAT, ['m', 2])],
    outputs: [value('present', FLOAT, ['n+m', 2]), value('total', FLOAT, [])],
    nodes: [node('Concat', ['past', 'x'], ['present'], { axis: { i: 0 } }), node('ReduceSum', ['present'], ['total'], { keepdims: { i: 0 } })],
  });

/** The data of results by name. */
const dataOf = (results) => Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, data]));

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

describe('loadModel', () => {
  const folder = temporaryFolder();

  test('takes a path, a file URL, a view and a buffer', async () => {
    const bytes = affine();
    const path = join(folder, 'affine.onnx');
    writeFileSync(path, bytes);
    const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    const url = pathToFileURL(path);
    for (const source of [path, url, url.href, { href: url.href, protocol: 'file:' }, bytes, buffer, new DataView(buffer)]) {
      const model = await loadModel(source, { context });
      assert.ok(model instanceof OnnxModel);
      assert.deepEqual(await model.run({ x: floats(1, 2, 3) }), { y: { data: floats(3, 14, 106), shape: [1, 3], dataType: 'float32' } });
      model.destroy();
    }
  });

  test('tells inputs, outputs and metadata, which nobody can change', async () => {
    const bytes = writeModel({
      inputs: [value('x', FLOAT, [1, undefined, 'n']), value('flags', BOOL, [2]), value('any', INT64)],
      outputs: [value('y', FLOAT, ['n'])],
      nodes: [node('Identity', ['x'], ['y'])],
      producer_name: 'pen',
      producer_version: '2',
      model_version: 5,
      doc_string: 'about',
      metadata_props: [{ key: 'licence', value: 'ours' }],
    });
    const model = await loadModel(bytes, { context });
    assert.deepEqual(model.inputs, [
      { name: 'x', dataType: 'float32', type: 'tensor(float)', shape: [1, 'x_dim_1', 'n'], declaredShape: [1, '', 'n'] },
      { name: 'flags', dataType: 'uint8', type: 'tensor(bool)', shape: [2], declaredShape: [2] },
      { name: 'any', dataType: 'int64', type: 'tensor(int64)', shape: null, declaredShape: null },
    ]);
    assert.deepEqual(model.outputs, [{ name: 'y', dataType: 'float32', type: 'tensor(float)', shape: ['n'], declaredShape: ['n'] }]);
    assert.deepEqual(model.metadata, {
      irVersion: 8,
      producerName: 'pen',
      producerVersion: '2',
      domain: '',
      modelVersion: 5,
      description: 'about',
      graphName: 'test',
      opsets: { '': 17, 'com.microsoft': 1 },
      properties: { licence: 'ours' },
    });
    assert.equal(model.context, context);
    assert.throws(() => wrong(model.inputs).push(1), TypeError);
    assert.throws(() => {
      wrong(model.inputs[0].shape)[0] = 2;
    }, TypeError);
    assert.throws(() => {
      wrong(model.metadata.opsets)[''] = 2;
    }, TypeError);
    model.destroy();
  });

  test('reads weights from files beside the model, and only there', async () => {
    const model = (location) =>
      writeModel({
        inputs: [value('x', FLOAT, [2])],
        outputs: [value('y', FLOAT, [2])],
        weights: [externalWeight('w', [2], location, 4, 8)],
        nodes: [node('Add', ['x', 'w'], ['y'])],
      });
    const path = join(folder, 'external.onnx');
    writeFileSync(join(folder, 'weights.bin'), Buffer.from(floats(9, 1, 2).buffer));
    writeFileSync(path, model('weights.bin'));
    const loaded = await loadModel(path, { context });
    assert.deepEqual(dataOf(await loaded.run({ x: floats(10, 20) })), { y: floats(11, 22) });
    loaded.destroy();
    await assert.rejects(loadModel(model('weights.bin'), { context }), /load the model from a path/);
    for (const outside of ['../weights.bin', '/etc/passwd', 'a/../../b']) {
      writeFileSync(path, model(outside));
      await assert.rejects(loadModel(path, { context }), /outside of the model's folder/);
    }
  });

  test('refuses a model with every node that is not supported', async () => {
    const bytes = writeModel({
      inputs: [value('x', FLOAT, ['n'])],
      outputs: [value('y', FLOAT, ['n'])],
      nodes: [node('NoSuchThing', ['x'], ['a'], {}, 'first'), node('far.away.Other', ['a'], ['b'], {}, 'second\u202e\n'), node('Relu', ['b'], ['y'])],
    });
    await assert.rejects(loadModel(bytes, { context }), (error) => {
      assert.ok(error instanceof OnnxError && error.name === 'OnnxError');
      assert.deepEqual(
        error.unsupported.map(({ name, operator, domain, opset }) => [name.trim(), operator, domain, opset]),
        [
          ['first', 'NoSuchThing', '', 17],
          ['second\u202e', 'Other', 'far.away', 0],
        ],
      );
      assert.match(error.message, /^2 nodes are not supported\n {2}\[first\] NoSuchThing \(opset 17\): /);
      assert.ok(!error.message.includes('\u202e'));
      return true;
    });
    assert.deepEqual(
      inspectModel(bytes).unsupported.map(({ operator }) => operator),
      ['NoSuchThing', 'Other'],
    );
  });

  test('refuses inputs of types that WebNN does not have', async () => {
    const model = (type) => writeModel({ inputs: [type], outputs: [value('y', FLOAT)], nodes: [node('Identity', ['x'], ['y'])] });
    const COMPLEX64 = 14;
    await assert.rejects(loadModel(model(value('x', COMPLEX64, ['n'])), { context }), /the input "x" is of type complex64, which WebNN does not have/);
    await assert.rejects(loadModel(model({ name: 'x' }), { context }), /the input "x" is of type unknown/);
  });

  test('computes the outputs that are asked for, also inner values', async () => {
    const model = await loadModel(affine(), { context, outputs: ['m'] });
    assert.deepEqual(
      model.outputs.map(({ name }) => name),
      ['m'],
    );
    assert.deepEqual(dataOf(await model.run({ x: floats(1, 2, 3) })), { m: floats(2, 4, 6) });
    model.destroy();
    await assert.rejects(loadModel(affine(), { context, outputs: ['nothing'] }), /the output "nothing" is not a value of the model/);
  });

  test('values that decide about shapes are given when the model is loaded', async () => {
    const bytes = writeModel({
      inputs: [value('x', FLOAT, ['n']), value('shape', INT64, [2])],
      outputs: [value('y', FLOAT)],
      nodes: [node('Reshape', ['x', 'shape'], ['y'])],
    });
    const cut = await loadModel(bytes, { context });
    await assert.rejects(cut.compile({ x: [6] }), { code: 'ERR_WEBNN_NOT_SUPPORTED' });
    cut.destroy();
    const shape = BigInt64Array.of(2n, -1n);
    const model = await loadModel(bytes, { context, constants: { shape } });
    shape.fill(9n);
    assert.deepEqual(
      model.inputs.map(({ name }) => name),
      ['x'],
    );
    assert.deepEqual((await model.run({ x: floats(1, 2, 3, 4) })).y, { data: floats(1, 2, 3, 4), shape: [2, 2], dataType: 'float32' });
    assert.deepEqual((await model.compile({ x: [6] })).outputs.y.shape, [2, 3]);
    await assert.rejects(model.run({ x: floats(1, 2), shape }), /"shape" is not an input/);
    model.destroy();
    /** @type {[any, RegExp][]} */
    const cases = [
      [{ z: shape }, /constant "z" is not an input/],
      [{ shape: BigInt64Array.of(1n) }, /8 bytes/],
      [{ shape: floats(1, 2) }, /expected a BigInt64Array for int64/],
      [{ x: floats(1, 2) }, /has no valid shape/],
      [{ shape: 5 }, /is 5, expected a typed array/],
      [{ shape: { data: shape, shape: [2], dataType: 'int32' } }, /is of type "int32", expected int64/],
    ];
    for (const [constants, message] of cases) {
      await assert.rejects(loadModel(bytes, { context, constants }), (error) => error instanceof TypeError && message.test(error.message), String(message));
    }
  });

  test('refuses sizes of dimensions that the model does not have', async () => {
    await assert.rejects(
      loadModel(affine(), { context, freeDimensions: { bacth: 1 } }),
      (error) => error instanceof TypeError && /no free dimension "bacth", the model has "batch"/.test(error.message),
    );
  });

  test('has a context of its own when none is given', async () => {
    const model = await loadModel(affine());
    assert.deepEqual(dataOf(await model.run({ x: floats(0, 0, 0) })), { y: floats(1, 10, 100) });
    model.destroy();
    await model.context.lost;
  });

  test('computes on the device that is asked for', async () => {
    const options = { freeDimensions: { batch: 1 }, numThreads: 1 };
    const model = await loadModel(affine(), { ...options, device: 'cpu' });
    assert.deepEqual((await model.compile()).graph?.devices, ['cpu']);
    model.destroy();
    const gpu = loadModel(affine(), { ...options, device: 'gpu' });
    if (systemInfo().gpuReason === null) {
      const onGpu = await gpu;
      assert.deepEqual((await onGpu.compile()).graph?.devices, ['gpu']);
      onGpu.destroy();
    } else {
      await assert.rejects(gpu, { name: 'NotSupportedError', code: 'ERR_WEBNN_NOT_SUPPORTED', message: /device is "gpu", but no GPU can be used/ });
    }
  });

  test('shows what it is, and is given back at the end of a block', async () => {
    const model = await loadModel(affine(), { context });
    assert.equal(inspect(model), "OnnxModel {\n  inputs: { x: 'float32 [batch, 3]' },\n  outputs: { y: 'float32 [batch, 3]' }\n}");
    if (Symbol.dispose !== undefined) {
      model[Symbol.dispose]();
      await assert.rejects(model.run({ x: floats(1, 2, 3) }), { code: 'ERR_WEBNN_DESTROYED' });
    }
    if (Symbol.asyncDispose !== undefined) {
      const other = await loadModel(affine());
      await other[Symbol.asyncDispose]();
      await other.context.lost;
    }
    model.destroy();
  });

  test('refuses arguments that make no sense', async () => {
    const bytes = affine();
    const load = wrong(loadModel);
    /** @type {[() => Promise<unknown>, RegExp][]} */
    const cases = [
      [() => load(), /expected a path, a file URL or bytes/],
      [() => load(5), /expected a path, a file URL or bytes/],
      [() => load({}), /the model is an object, expected a path, a file URL or bytes$/],
      [() => load(bytes, null), /options is null/],
      [() => load(bytes, { context: {} }), /MLContext/],
      [() => load(bytes, { freeDimensions: { batch: -1 } }), /freeDimensions\["batch"\] is -1/],
      [() => load(bytes, { freeDimensions: { batch: 1.5 } }), /freeDimensions\["batch"\] is 1.5/],
      [() => load(bytes, { freeDimensions: 3 }), /freeDimensions is 3, expected an object of numbers by name/],
      [() => load(''), /the path has 0 characters/],
      [() => load('a'.repeat(40000)), /the path has 40000 characters, expected 1 to 32767/],
      [() => load(bytes, { outputs: [] }), /outputs is empty, expected at least one name/],
      [() => load(bytes, { outputs: ['y', 'y'] }), /outputs has a name twice, expected each once/],
      [() => load(bytes, { batch: 1 }), /there is no option "batch", the options are context, device, numThreads, freeDimensions/],
      [() => load(bytes, { device: 'tpu' }), /device is "tpu", expected "auto", "cpu" or "gpu"/],
      [() => load(bytes, { device: 'cpu', context }), /device and numThreads are for a new context/],
      [() => load(bytes, { numThreads: 0 }), /numThreads is 0, expected 1 to 1024/],
      [() => load(bytes, { signal: {} }), /signal is an object, expected an AbortSignal/],
      [
        () => load('https://example.org/model.onnx'),
        /the model is at "https:\/\/example\.org\/model\.onnx", expected a path, a file URL or bytes: nothing is downloaded; fetch it and pass its bytes/,
      ],
      [() => load(new URL('http://example.org/model.onnx')), /the model is at "http:\/\/example\.org\/model\.onnx", expected a path/],
    ];
    for (const [call, message] of cases) {
      await assert.rejects(call(), (error) => error instanceof TypeError && message.test(error.message), String(call));
    }
    const lost = await ml.createContext();
    lost.destroy();
    await assert.rejects(loadModel(bytes, { context: lost }), { name: 'InvalidStateError', message: /loadModel: the context is lost/ });
    await assert.rejects(
      loadModel(join(folder, 'nothing.onnx')),
      (error) => error instanceof OnnxError && error.message === `loadModel: there is no file "${join(folder, 'nothing.onnx')}"`,
    );
    await assert.rejects(loadModel(folder), OnnxError);
    await assert.rejects(loadModel(new Uint8Array(0)), /not an ONNX file: it is empty$/);
    await assert.rejects(loadModel(new Uint8Array(100).fill(255)), OnnxError);
    assert.throws(() => new (wrong(OnnxModel))(), /Illegal constructor/);
  });
});

describe('run', () => {
  test('compiles once per set of shapes', async () => {
    const model = await loadModel(affine(), { context });
    for (const batch of [1, 2, 1, 3]) {
      const { y } = await model.run({ x: new Float32Array(3 * batch).fill(1) });
      assert.deepEqual(
        y.data,
        Float32Array.from({ length: 3 * batch }, (_, i) => [3, 12, 102][i % 3]),
      );
    }
    const { graph, inputs, outputs } = await model.compile({ x: [2, 3] });
    assert.equal((await model.compile({ x: [2, 3] })).graph, graph);
    assert.notEqual((await model.compile({ x: [4, 3] })).graph, graph);
    assert.deepEqual(inputs, { x: { dataType: 'float32', shape: [2, 3] } });
    assert.deepEqual(outputs, { y: { dataType: 'float32', shape: [2, 3] } });
    model.destroy();
  });

  test('forgets the shapes that were used the longest time ago', async () => {
    const model = await loadModel(affine(), { context });
    const graphOf = async (batch) => (await model.compile({ x: [batch, 3] })).graph;
    const graphs = [];
    for (let batch = 1; batch <= 8; batch++) graphs.push(await graphOf(batch));
    assert.equal(await graphOf(1), graphs[0]);
    await graphOf(9);
    assert.equal(await graphOf(1), graphs[0]);
    assert.notEqual(await graphOf(2), graphs[1]);
    // Runs go on although what they use is dropped meanwhile.
    const runs = Array.from({ length: 20 }, (_, at) => model.run({ x: new Float32Array(3 * (at + 1)) }));
    (await Promise.all(runs)).forEach(({ y }, at) => assert.deepEqual(y.shape, [at + 1, 3]));
    model.destroy();
  });

  test('a result can be fed to a model as it is', async () => {
    const model = await loadModel(affine(), { context });
    const { y } = await model.run({ x: floats(1, 2, 3, 4, 5, 6) });
    const again = await model.run({ x: y });
    assert.deepEqual(again.y, { data: floats(7, 38, 312, 19, 50, 324), shape: [2, 3], dataType: 'float32' });
    await assert.rejects(model.run({ x: { ...y, dataType: 'int32' } }), /feed "x" is of type "int32", expected float32/);
    y.shape.push(1);
    y.data.fill(0);
    assert.deepEqual(again.y.shape, [2, 3]);
    model.destroy();
  });

  test('the graph of a model that somebody destroys is compiled again', async () => {
    const model = await loadModel(affine(), { context });
    const { graph } = await model.compile({ x: [1, 3] });
    defined(graph).destroy();
    assert.deepEqual((await model.run({ x: floats(1, 2, 3) })).y.data, floats(3, 14, 106));
    assert.notEqual((await model.compile({ x: [1, 3] })).graph, graph);
    model.destroy();
  });

  test('uses data as they are at the call', async () => {
    const model = await loadModel(affine(), { context });
    const x = floats(1, 1, 1);
    const first = model.run({ x }); // compiles
    x.fill(5);
    assert.deepEqual((await first).y.data, floats(3, 12, 102));
    const second = model.run({ x });
    x.fill(7);
    const third = model.run({ x });
    assert.deepEqual([(await second).y.data, (await third).y.data], [floats(11, 20, 110), floats(15, 24, 114)]);
    model.destroy();
  });

  test('uses data as they are at the call, also in the first runs of a model that is compiled already', async () => {
    const model = await loadModel(affine(), { context, freeDimensions: { batch: 1 } });
    const x = floats(1, 2, 3);
    const runs = [model.run({ x })];
    x.fill(0);
    runs.push(model.run({ x }));
    x.fill(5);
    assert.deepEqual((await Promise.all(runs)).map(dataOf), [{ y: floats(3, 14, 106) }, { y: floats(1, 10, 100) }]);
    model.destroy();
  });

  test('a small run ends in its call, behind all that was asked before', async () => {
    const cpu = await ml.createContext({ accelerated: false });
    const model = await loadModel(affine(), { context: cpu });
    const [x, y] = [
      await cpu.createTensor({ dataType: 'float32', shape: [1, 3], writable: true }),
      await cpu.createTensor({ dataType: 'float32', shape: [1, 3], readable: true, writable: true }),
    ];
    let atOnce = 0;
    for (let n = 0; n < 500; n++) {
      cpu.writeTensor(x, floats(n, 0, 0));
      let turned = false;
      setImmediate(() => (turned = true));
      const [{ y: first }, { y: second }] = await Promise.all([model.run({ x }), model.run({ x: floats(0, n, 0) }, {})]);
      assert.deepEqual(
        [[...first.data], [...second.data]],
        [
          [2 * n + 1, 10, 100],
          [1, 2 * n + 10, 100],
        ],
      );
      await model.run({ x: floats(0, 0, n) }, { y });
      assert.deepEqual([...new Float32Array(await cpu.readTensor(y))], [1, 10, 2 * n + 100]);
      turned = false;
      setImmediate(() => (turned = true));
      const { data } = (await model.run({ x: floats(1, 1, n) })).y;
      atOnce += turned ? 0 : 1;
      assert.equal(data[2], 2 * n + 100);
      await new Promise(setImmediate);
    }
    // One in 16 waits for the event loop. The others do not, even if the thread that ended what was before did not run again.
    assert.ok(atOnce > 350, `${atOnce} of 500 ended in their calls`);
    cpu.destroy();
  });

  test('small runs one after the other leave the event loop to others', async () => {
    const model = await loadModel(affine(), { device: 'cpu' });
    let isOver = false;
    setTimeout(() => (isOver = true), 20);
    let runs = 0;
    for (; !isOver; runs++) {
      assert.deepEqual([...(await model.run({ x: floats(runs, 0, 0) })).y.data], [2 * runs + 1, 10, 100]);
    }
    const many = await Promise.all(Array.from({ length: 2000 }, (_, n) => model.run({ x: floats(n, 1, 2) })));
    many.forEach(({ y }, n) => assert.deepEqual([...y.data], [2 * n + 1, 12, 104]));
    for (let round = 0; round < 20; round++) {
      const order = [];
      const runs = Array.from({ length: 50 }, (_, n) => model.run({ x: floats(n, 1, 2) }).then(() => order.push(n)));
      await new Promise(round % 2 === 0 ? setImmediate : (resolve) => setTimeout(resolve, 1));
      await Promise.all([...runs, model.run({ x: floats(50, 1, 2) }).then(() => order.push(50))]);
      assert.deepEqual(
        order,
        Array.from({ length: 51 }, (_, n) => n),
        'in the order of the calls',
      );
    }
    const narrow = await model.context.createTensor({ dataType: 'float32', shape: [1, 2], readable: true });
    isOver = false;
    setTimeout(() => (isOver = true), 20);
    while (!isOver) {
      await assert.rejects(model.run({ x: floats(1, 2, 3) }, { y: narrow }), { name: 'TypeError' });
    }
    model.destroy();
    await assert.rejects(model.run({ x: floats(1, 2, 3) }), { name: 'InvalidStateError', code: 'ERR_WEBNN_DESTROYED' });
  });

  test('refuses shapes other than those of the model, although the numbers of elements are equal', async () => {
    const model = await loadModel(affine(), { context, freeDimensions: { batch: 1 } });
    const message = /"x" has shape \[3, 1\], expected \[batch=1, 3\]/;
    await assert.rejects(model.run({ x: { data: floats(1, 2, 3), shape: [3, 1] } }), message);
    const tensor = await context.createTensor({ dataType: 'float32', shape: [3, 1] });
    await assert.rejects(model.run({ x: tensor }), message);
    tensor.destroy();
    model.destroy();
  });

  test('keeps a growing cache in tensors, from no elements on', async () => {
    const model = await loadModel(growing(), { context });
    const create = (n) => context.createTensor({ dataType: 'float32', shape: [n, 2], readable: true });
    const first = await create(1);
    let result = await model.run({ past: { data: floats(), shape: [0, 2] }, x: floats(1, 2) }, { present: first });
    assert.equal(result.present, first);
    assert.deepEqual(result.total.data, floats(3));
    const second = await create(3);
    result = await model.run({ past: first, x: floats(3, 4, 5, 6) }, { present: second });
    assert.deepEqual(result.total.data, floats(21));
    assert.deepEqual(new Float32Array(await context.readTensor(second)), floats(1, 2, 3, 4, 5, 6));
    // What is not wanted is not read.
    result = await model.run({ past: first, x: floats(3, 4, 5, 6) }, { present: null });
    assert.deepEqual(Object.keys(result), ['total']);
    model.destroy();
    first.destroy();
    second.destroy();
  });

  test('refuses feeds and fetches that do not fit', async () => {
    const model = await loadModel(affine(), { context });
    const tensor = await context.createTensor({ dataType: 'float32', shape: [1, 3] });
    const other = await ml.createContext();
    const foreign = await other.createTensor({ dataType: 'float32', shape: [1, 3], readable: true });
    const x = floats(1, 2, 3);
    /** @type {[any, any, RegExp][]} */
    const cases = [
      [{}, {}, /"x" is missing/],
      [{ x, z: x }, {}, /"z" is not an input; the model has "x"/],
      [{ x: 'text' }, {}, /feed "x" is "text", expected a typed array/],
      [x, {}, /feeds is a typed array, expected an object with one per input: "x"/],
      [{ x: [1, 2, 3] }, {}, /feed "x" is an array, expected a Float32Array for float32, as in Float32Array\.from\(values\)$/],
      [{ x: new Int32Array(3) }, {}, /is an Int32Array, expected a Float32Array for float32, or a Uint8Array or a buffer of bytes$/],
      [{ x: floats(1, 2) }, {}, /feed "x" has 2 elements, expected a number that fills the shape \[batch, 3\]/],
      [{ x: { data: x } }, {}, /has data but no shape/],
      [{ x: { data: x, shape: [3] } }, {}, /has shape \[3\], expected \[batch, 3\]/],
      [{ x: { data: x, shape: [2, 3] } }, {}, /has 12 bytes, expected the 24 bytes of float32 \[2, 3\]/],
      [{ x: { data: x, shape: [-1, 3] } }, {}, /shape\[0\] is -1/],
      [{ x }, { y: 5 }, /fetch "y" is 5, expected an MLTensor/],
      [{ x }, { nothing: tensor }, /there is no output "nothing", the model has "y"/],
      [{ x: foreign }, {}, /another context/],
      [{ x }, { y: foreign }, /another context/],
      [{ x: tensor }, { y: tensor }, /more than once/],
    ];
    for (const [feeds, fetches, message] of cases) {
      await assert.rejects(model.run(feeds, fetches), (error) => error instanceof TypeError && message.test(error.message), String(message));
    }
    assert.deepEqual((await model.run({ x })).y.data, floats(3, 14, 106));
    await assert.rejects(model.compile({}), /"x" has free sizes, \[batch, 3\]: pass its shape, or set freeDimensions$/);
    await assert.rejects(model.compile({ z: [1] }), /no input "z"/);
    await assert.rejects(model.compile({ x: [1, 4] }), /has shape \[1, 4\], expected \[batch=1, 3\]/);
    model.destroy();
    await assert.rejects(model.run({ x }), { name: 'InvalidStateError' });
    await assert.rejects(model.compile(), { name: 'InvalidStateError' });
    other.destroy();
  });

  test('takes inputs of any number of dimensions', async () => {
    const bytes = writeModel({ inputs: [value('x', FLOAT)], outputs: [value('y', FLOAT)], nodes: [node('Neg', ['x'], ['y'])] });
    const model = await loadModel(bytes, { context });
    assert.equal(model.inputs[0].shape, null);
    await assert.rejects(model.run({ x: floats(1, 2) }), /does not specify the shape of "x": pass it as { data, shape }$/);
    for (const shape of [[2], [1, 2], [1, 2, 1]]) {
      assert.deepEqual((await model.run({ x: { data: floats(1, 2), shape } })).y, { data: floats(-1, -2), shape, dataType: 'float32' });
    }
    model.destroy();
  });

  test('takes feeds of which only the shape is used', async () => {
    const bytes = writeModel({
      inputs: [value('x', FLOAT, ['n']), value('y', FLOAT, ['n'])],
      outputs: [value('shape', INT64), value('z', FLOAT)],
      nodes: [node('Shape', ['x'], ['shape']), node('Relu', ['y'], ['z'])],
    });
    const model = await loadModel(bytes, { context });
    for (const n of [2, 3]) {
      assert.deepEqual(dataOf(await model.run({ x: new Float32Array(n), y: new Float32Array(n) })), {
        shape: BigInt64Array.of(BigInt(n)),
        z: new Float32Array(n),
      });
    }
    model.destroy();
  });

  test('goes on after a specialization that failed', async () => {
    const model = await loadModel(affine(4), { context });
    await assert.rejects(model.run({ x: new Float32Array(4) }), (error) => error instanceof OnnxError && /\[plus\] Add/.test(error.message));
    await assert.rejects(model.run({ x: new Float32Array(4) }), OnnxError);
    model.destroy();
  });

  test('a model destroyed while it runs gives its results', async () => {
    const model = await loadModel(affine(), { context });
    const run = model.run({ x: floats(1, 2, 3) });
    model.destroy();
    assert.deepEqual((await run).y.data, floats(3, 14, 106));
  });

  test('so does one with a context of its own, which goes after the last run', async () => {
    const model = await loadModel(affine());
    const x = floats(1, 2, 3);
    const runs = [model.run({ x })]; // compiles
    await runs[0];
    runs.push(model.run({ x }), model.run({ x: floats(1, 2, 3, 4, 5, 6) }));
    const compiling = assert.rejects(model.compile({ x: [3, 3] }), { name: 'InvalidStateError', message: /the model is destroyed/ });
    model.destroy();
    assert.deepEqual(
      (await Promise.all(runs)).map(({ y }) => y.data.length),
      [3, 3, 6],
    );
    await compiling;
    await model.context.lost;
    await assert.rejects(model.run({ x }), { name: 'InvalidStateError', message: /the model is destroyed/ });
  });

  test('a model destroyed while its feeds are read does not run', async () => {
    const model = await loadModel(affine());
    const feeds = {
      get x() {
        model.destroy();
        return floats(1, 2, 3);
      },
    };
    await assert.rejects(model.run(feeds), { name: 'InvalidStateError', message: /the model is destroyed/ });
  });

  test('takes a DataView, and names a feed that is detached', async () => {
    const model = await loadModel(affine(), { context });
    const view = new DataView(floats(9, 1, 2, 3).buffer, 4);
    assert.deepEqual((await model.run({ x: view })).y.data, floats(3, 14, 106));
    for (const detached of [floats(1, 2, 3), view]) {
      structuredClone(detached.buffer, { transfer: [detached.buffer] });
      await assert.rejects(model.run({ x: detached }), { name: 'TypeError', message: 'run: feed "x" is detached' });
    }
    model.destroy();
  });

  test('an input may have a name that objects give a meaning', async () => {
    const model = await loadModel(
      writeModel({
        inputs: [value('__proto__', FLOAT, ['n'])],
        outputs: [value('constructor', FLOAT, ['n'])],
        nodes: [node('Neg', ['__proto__'], ['constructor'])],
      }),
      { context },
    );
    /** @type {Record<string, any>} */
    const results = await model.run({ ['__proto__']: floats(1, -2) });
    assert.deepEqual(results['constructor'].data, floats(-1, 2));
    model.destroy();
  });
});

describe('importModel', () => {
  test('joins models with operators in one graph', async () => {
    const builder = new MLGraphBuilder(context);
    const x = builder.input('x', { dataType: 'float32', shape: [1, 3] });
    const { y } = importModel(builder, affine(), { x: builder.neg(x) });
    const { m } = importModel(builder, affine(), { x: y }, { outputs: ['m'] });
    const graph = await builder.build({ z: builder.add(m, x) });
    const [input, output] = await Promise.all([
      context.createTensor({ dataType: 'float32', shape: [1, 3], writable: true }),
      context.createTensor({ dataType: 'float32', shape: [1, 3], readable: true }),
    ]);
    context.writeTensor(input, floats(1, 2, 3));
    context.dispatch(graph, { x: input }, { z: output });
    assert.deepEqual(new Float32Array(await context.readTensor(output)), floats(-1, 14, 191));
  });

  test('a constant binding can be a shape', async () => {
    const bytes = writeModel({
      inputs: [value('x', FLOAT, [6]), value('shape', INT64, [2])],
      outputs: [value('y', FLOAT)],
      nodes: [node('Reshape', ['x', 'shape'], ['y'])],
    });
    const builder = new MLGraphBuilder(context);
    const shape = builder.constant({ dataType: 'int64', shape: [2] }, BigInt64Array.of(2n, -1n));
    assert.deepEqual(importModel(builder, bytes, { shape }).y.shape, [2, 3]);
    assert.throws(() => importModel(new MLGraphBuilder(context), bytes), /shape \(input 1\) is computed from inputs of the model/);
  });

  test('leaves the builder as it was when it fails', async () => {
    const builder = new MLGraphBuilder(context);
    const bytes = writeModel({
      inputs: [value('x', FLOAT, [2])],
      outputs: [value('z', FLOAT)],
      nodes: [node('Relu', ['x'], ['y']), node('NoSuchThing', ['y'], ['z'])],
    });
    assert.throws(() => importModel(builder, bytes), OnnxError);
    const x = builder.input('x', { dataType: 'float32', shape: [2] });
    await builder.build({ y: builder.relu(x) });
    assert.throws(() => importModel(builder, affine()), { name: 'InvalidStateError' });
  });

  test('refuses bindings that do not fit', () => {
    const builder = new MLGraphBuilder(context);
    const other = new MLGraphBuilder(context);
    const operand = (of, dataType, shape) => of.constant({ dataType, shape }, new ArrayBuffer(64).slice(0, 4 * shape.reduce((a, b) => a * b, 1)));
    /** @type {[any, RegExp][]} */
    const cases = [
      [{ x: operand(builder, 'int32', [1, 3]) }, /the binding of "x" is of type int32, expected float32/],
      [{ x: operand(builder, 'float32', [3]) }, /has shape \[3\], expected \[batch, 3\]/],
      [{ z: operand(builder, 'float32', [3]) }, /the model has no input "z"/],
      [{ x: operand(other, 'float32', [1, 3]) }, /another builder/],
      [{ x: 5 }, /MLOperand/],
      [{}, /"x" has free sizes, \[batch, 3\]: pass its shape, or set freeDimensions/],
    ];
    for (const [bindings, message] of cases) {
      assert.throws(() => importModel(builder, affine(), bindings), message);
    }
    assert.throws(() => importModel(wrong({}), affine()), /MLGraphBuilder/);
  });
});

describe('inspectModel', () => {
  test('counts operators and parameters', () => {
    const { operators, parameters, parameterBytes, unsupported, inputs } = inspectModel(affine());
    assert.deepEqual(operators, { Add: 1, Mul: 1 });
    assert.deepEqual([parameters, parameterBytes, unsupported.length], [4, 16, 0]);
    assert.deepEqual(inputs[0].shape, ['batch', 3]);
  });

  test('tells what an import would refuse when the shapes are known', () => {
    const bytes = writeModel({
      inputs: [value('x', STRING, [2]), value('y', FLOAT, ['n'])],
      outputs: [value('z', FLOAT)],
      nodes: [node('Transpose', ['y'], ['z'], { perm: { ints: [1] } })],
    });
    assert.equal(inspectModel(bytes).unsupported[0].operator, 'Transpose');
    const { unsupported } = inspectModel(bytes, { freeDimensions: { n: 4 } });
    assert.equal(unsupported[0].operator, 'Transpose');
  });
});

test('supportedOperators and unsupportedOperators list each once', () => {
  const names = [...supportedOperators(), ...unsupportedOperators()].map(({ domain, operator }) => `${domain}.${operator}`);
  assert.ok(names.includes('.Conv'));
  assert.equal(new Set(names).size, names.length);
});

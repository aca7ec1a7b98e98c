// Sessions from everything that a model can be in, what they say about it, and what is refused.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, it } from 'node:test';
import { InferenceSession, Tensor } from 'webnn-node-ort';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import * as onnx from '../../../__test__/onnx/model-writer.mjs';
import { BOOL, DOUBLE, FLOAT, FLOAT16, INT64, negate, node, value, weight, write, writeModel } from './support.mjs';

/** Runs a session of the model that negates. */
async function check(session) {
  const { y } = await session.run({ x: new Tensor('float32', [1, -2], [2]) });
  assert.deepEqual([...y.data], [-1, 2]);
}

/** A model whose weight is in a file beside it: y = x + w. */
const withExternalData = () =>
  writeModel({
    inputs: [value('x', FLOAT, [2])],
    outputs: [value('y', FLOAT, [2])],
    nodes: [node('Add', ['x', 'w'], ['y'])],
    weights: [onnx.externalWeight('w', [2], 'weights.bin', 4, 8)],
  });

/** The weights of that: 10 and 20 behind four bytes of something else. */
const weights = () => new Uint8Array(Float32Array.of(0, 10, 20).buffer);

describe('InferenceSession.create', () => {
  it('warns about doubles that are computed in float32', async () => {
    const warned = once(process, 'warning');
    const modulo = writeModel({
      inputs: [value('x', DOUBLE, [2])],
      outputs: [value('y', DOUBLE, [2])],
      nodes: [node('Mod', ['x', 'x'], ['y'], { fmod: { i: 1 } })],
    });
    const session = await InferenceSession.create(modulo);
    const [{ code, message }] = await warned;
    assert.equal(code, 'WARN_WEBNN_FLOAT32');
    assert.match(message, /input "x"; output "y"; node "y"$/);
    await session.release();
  });

  it('takes a path, absolute or relative, also one that is no ASCII', async (t) => {
    const directory = temporaryFolder(t);
    const path = write(directory, 'müdül 模型.onnx', negate());
    await check(await InferenceSession.create(path));
    const before = process.cwd();
    process.chdir(directory);
    t.after(() => process.chdir(before));
    await check(await InferenceSession.create(basename(path)));
  });

  it('takes bytes, as a view of a part of them and as any buffer, and needs them no longer when there is a session', async () => {
    const bytes = negate();
    const padded = new Uint8Array(bytes.length + 20).fill(255);
    padded.set(bytes, 7);
    const shared = new SharedArrayBuffer(bytes.length);
    new Uint8Array(shared).set(bytes);
    const sessions = await Promise.all([
      InferenceSession.create(bytes),
      InferenceSession.create(Buffer.from(bytes)),
      InferenceSession.create(padded.subarray(7, 7 + bytes.length)),
      InferenceSession.create(padded.buffer, 7, bytes.length),
      InferenceSession.create(padded.buffer, 7, bytes.length, {}),
      InferenceSession.create(shared),
      InferenceSession.create(new Uint8Array(shared)),
    ]);
    padded.fill(0);
    new Uint8Array(shared).fill(0);
    await Promise.all(sessions.map(check));
  });

  it('finds external data beside the path, or takes them as an option', async (t) => {
    const add = async (session) => [...(await session.run({ x: new Tensor('float32', [1, 2], [2]) })).y.data];
    const directory = temporaryFolder(t);
    const path = write(directory, 'model.onnx', withExternalData());
    const externalData = [{ path: 'weights.bin', data: weights() }];
    assert.deepEqual(await add(await InferenceSession.create(withExternalData(), { externalData })), [11, 22]);
    assert.deepEqual(await add(await InferenceSession.create(path, { externalData })), [11, 22]);
    await assert.rejects(InferenceSession.create(path), { name: 'Error', message: /weights\.bin/ });
    await assert.rejects(InferenceSession.create(withExternalData()), { name: 'Error', message: /weights\.bin/ });
    await assert.rejects(InferenceSession.create(withExternalData(), { externalData: [{ path: 'weights.bin', data: weights().subarray(0, 8) }] }), {
      name: 'Error',
    });
    write(directory, 'weights.bin', weights());
    assert.deepEqual(await add(await InferenceSession.create(path)), [11, 22]);
  });

  it('describes inputs and outputs as onnxruntime-node does', async () => {
    const session = await InferenceSession.create(
      writeModel({
        inputs: [value('a', FLOAT, [undefined, 'n', 3]), value('b', INT64), value('c', BOOL, [2]), value('d', FLOAT16, []), value('w', FLOAT, [1])],
        weights: [weight('w', [1], Float32Array.of(1))],
        outputs: [value('ya', FLOAT, [undefined, 'n', 3]), value('yb', INT64), value('yc', BOOL, [2]), value('yd', FLOAT16, [])],
        nodes: [node('Add', ['a', 'w'], ['ya']), node('Neg', ['b'], ['yb']), node('Not', ['c'], ['yc']), node('Neg', ['d'], ['yd'])],
      }),
    );
    assert.deepEqual(session.inputNames, ['a', 'b', 'c', 'd']);
    assert.deepEqual(session.outputNames, ['ya', 'yb', 'yc', 'yd']);
    const metadata = (prefix) => [
      { name: `${prefix}a`, isTensor: true, type: 'float32', shape: ['', 'n', 3] },
      { name: `${prefix}b`, isTensor: true, type: 'int64', shape: [] },
      { name: `${prefix}c`, isTensor: true, type: 'bool', shape: [2] },
      { name: `${prefix}d`, isTensor: true, type: 'float16', shape: [] },
    ];
    assert.deepEqual(session.inputMetadata, metadata(''));
    assert.deepEqual(session.outputMetadata, metadata('y'));
  });

  it('describes outputs that are no tensors, and computes the others', async () => {
    const session = await InferenceSession.create(
      writeModel({
        inputs: [value('x', FLOAT, [2])],
        outputs: [onnx.sequenceValue('list', FLOAT), value('y', FLOAT, [2])],
        nodes: [node('SplitToSequence', ['x'], ['list']), node('Neg', ['x'], ['y'])],
      }),
    );
    assert.deepEqual(session.outputNames, ['list', 'y']);
    assert.deepEqual(session.outputMetadata, [
      { name: 'list', isTensor: false },
      { name: 'y', isTensor: true, type: 'float32', shape: [2] },
    ]);
    const feeds = { x: new Tensor('float32', [1, -2], [2]) };
    assert.deepEqual([...(await session.run(feeds, ['y'])).y.data], [-1, 2]);
    await assert.rejects(session.run(feeds), { name: 'Error', message: /"list".*seq\(tensor\(float\)\)/ });
  });

  it('lets programs add properties to a session', async () => {
    const session = /** @type {import('webnn-node-ort').InferenceSession & { config?: object }} */ (await InferenceSession.create(negate()));
    session.config = { model_type: 'bert' };
    assert.deepEqual(session.config, { model_type: 'bert' });
    await check(session);
  });

  it('rejects what is no model, naming the path', async (t) => {
    const directory = temporaryFolder(t);
    mkdirSync(`${directory}/folder.onnx`);
    const damaged = write(directory, 'damaged.onnx', negate().subarray(0, 30));
    /** @type {[any, RegExp][]} */
    const cases = [
      ['/there/is/no.onnx', /from \/there\/is\/no\.onnx failed/],
      ['', /failed/],
      [`${directory}/folder.onnx`, /folder\.onnx failed/],
      [`${directory}/nul\0.onnx`, /failed/],
      ['x'.repeat(100_000), /^.{0,2000}$/s],
      ['file:///there/is/no.onnx', /failed/],
      ['https://example.org/model.onnx', /failed/],
      [damaged, /damaged\.onnx failed/],
      [new Uint8Array(0), /No graph was found in the protobuf/],
      [Uint8Array.of(1, 2, 3), /failed/],
      [new Uint8Array(1000).fill(255), /failed/],
    ];
    for (const [source, message] of cases) {
      await assert.rejects(InferenceSession.create(source), { name: 'Error', message }, String(source).slice(0, 50));
    }
    await assert.rejects(InferenceSession.create('/there/is/no.onnx'), {
      code: 'ERR_WEBNN_MODEL_NOT_FOUND',
      help: /\/docs\/errors\.md#err_webnn_model_not_found$/,
    });
  });

  it('names every node and every input that is not supported', async () => {
    const unsupported = writeModel({
      inputs: [value('x', FLOAT, [1])],
      outputs: [value('y', FLOAT, [1]), value('z', FLOAT, [1])],
      nodes: [node('Nonsense', ['x'], ['y']), node('org.example.Other', ['x'], ['z'])],
    });
    await assert.rejects(InferenceSession.create(unsupported), ({ name, message, unsupported: nodes }) => {
      assert.equal(name, 'Error');
      assert.match(message, /Nonsense[^]*Other/);
      assert.deepEqual(
        nodes.map(({ operator }) => operator),
        ['Nonsense', 'Other'],
      );
      return true;
    });
    const lists = writeModel({
      inputs: [onnx.sequenceValue('list', FLOAT)],
      outputs: [value('y', FLOAT, [1])],
      nodes: [node('ConcatFromSequence', ['list'], ['y'], { axis: { i: 0 } })],
    });
    await assert.rejects(InferenceSession.create(lists), { name: 'Error', message: /list.*seq\(tensor\(float\)\)/ });
  });

  it('rejects arguments of other types with a TypeError or RangeError', async () => {
    const bytes = negate();
    const { buffer } = Uint8Array.from(bytes);
    /** @type {[any[], string, RegExp][]} */
    const cases = [
      [[], 'TypeError', /argument\[0\]/],
      [[5], 'TypeError', /argument\[0\]/],
      [[null], 'TypeError', /argument\[0\]/],
      [[{}], 'TypeError', /argument\[0\]/],
      [[new DataView(buffer)], 'TypeError', /argument\[0\]/],
      [[Float32Array.of(1)], 'TypeError', /argument\[0\]/],
      [[bytes, 'cpu'], 'TypeError', /'options'/],
      [[bytes, null], 'TypeError', /'options'/],
      [['path', 5], 'TypeError', /'options'/],
      [[buffer, -1], 'RangeError', /'byteOffset'/],
      [[buffer, 1e9], 'RangeError', /'byteOffset'/],
      [[buffer, 0.5], 'RangeError', /'byteOffset'/],
      [[buffer, 0, -1], 'RangeError', /'byteLength'/],
      [[buffer, 0, 1e9], 'RangeError', /'byteLength'/],
      [[buffer, 0, 'x'], 'TypeError', /'byteLength'/],
      [[buffer, 0, buffer.byteLength, 'cpu'], 'TypeError', /'options'/],
    ];
    for (const [args, name, message] of cases) {
      await assert.rejects(Reflect.apply(InferenceSession.create, InferenceSession, args), { name, message });
    }
  });
});

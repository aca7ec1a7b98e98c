import assert from 'node:assert/strict';
import test from 'node:test';
import { until } from '../../../__test__/lib/wait.mjs';
import { ByteBudget } from '../lib/byte-budget.js';
import { JsonThread } from '../lib/json/thread.js';
import { END, LIST, MIB, modelServer, repeated } from './json-support.mjs';
import { post, postJson } from './support.mjs';

test('long JSON is read and written as short JSON and raw bytes are', async (t) => {
  const { infer } = await modelServer(t);
  const x = Float32Array.from({ length: 50_000 }, (_, i) => Math.sin(i) * 2 ** ((i % 40) - 20));
  const input = { name: 'x', datatype: 'FP32', shape: [x.length] };
  const bytes = Buffer.from(x.buffer);
  const inputs = [{ ...input, parameters: { binary_data_size: bytes.length } }];
  const head = Buffer.from(JSON.stringify({ inputs, parameters: { binary_data_output: true } }));
  // A long head before raw bytes goes to the thread with them.
  const longHead = Buffer.from(JSON.stringify({ inputs, parameters: { binary_data_output: true, note: ' '.repeat(100_000) } }));
  for (const binaryHead of [head, longHead]) {
    const raw = await post(infer, Buffer.concat([binaryHead, bytes]), { 'inference-header-content-length': String(binaryHead.length) });
    assert.equal(raw.status, 200, raw.bytes.toString().slice(0, 200));
    const start = Number(raw.headers.get('inference-header-content-length'));
    const expected = new Float32Array(new Uint8Array(raw.bytes.subarray(start)).buffer);
    assert.deepEqual(
      expected,
      x.map((value) => 2 * value),
    );
    const { status, json } = await postJson(infer, { id: 'long', inputs: [{ ...input, data: Array.from(x) }] });
    assert.deepEqual([status, json.id, json.outputs[0].shape], [200, 'long', [x.length]]);
    assert.deepEqual(Float32Array.from(json.outputs[0].data), expected);
  }
  const wrong = Array.from(x, (value, i) => (i === 40_000 ? 'x' : value));
  assert.deepEqual(await postJson(infer, { inputs: [{ ...input, data: wrong }] }), {
    status: 400,
    json: { error: 'input "x": element 40000 is "x", expected a value of type FP32' },
  });
  const infinite = { ...input, data: Array.from(x, () => 3e38) };
  const { status, json } = await postJson(infer, { inputs: [infinite] });
  assert.deepEqual([status, json.error], [400, 'output "y": JSON cannot write Infinity of type FP32; ask for raw bytes with binary_data']);
});

test('JSON whose values take too much memory is refused before they do', async (t) => {
  const { infer } = await modelServer(t);
  const data = Array(50_000).fill(0.5);
  const good = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [data.length], data }] });
  const most = 16 * MIB - 10;
  const bad = [
    repeated(LIST, '{},', `{}]${END}`, most),
    repeated(LIST, '[[],[]],', `[]]${END}`, most),
    Buffer.from('['.repeat(most)),
    repeated('{', '"":"",', '"a":1}', most),
  ];
  const requests = [good, bad[0], good, bad[1], bad[2], good, bad[3], good];
  const answers = await Promise.all(requests.map((body) => postJson(infer, body)));
  for (const [i, { status, json }] of answers.entries()) {
    if (requests[i] === good) assert.equal(status, 200);
    else assert.deepEqual([status, json.error], [413, 'the JSON has more than 1048576 objects, lists and strings; send tensors as raw bytes']);
  }
  // Brackets within texts are no lists.
  const quoted = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1], data: [1] }], id: '[\\"{'.repeat(MIB) });
  assert.equal((await post(infer, quoted)).status, 200);
});

test('a thread that ends by accident is started again, and no other task is lost', async (t) => {
  const bodies = new ByteBudget(64 * MIB);
  const thread = new JsonThread(bodies);
  t.after(() => thread.close());
  const { signal } = new AbortController();
  const long = () => Buffer.concat([Buffer.from('{"inputs":[],"id":"'), Buffer.alloc(100_000, 'x'), Buffer.from('"}')]);
  const tasks = ['v2', 'no kind', 'v2', 'no kind', 'v2'].map((kind) => thread.read(kind, long(), signal));
  const outcomes = await Promise.allSettled(tasks);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'],
  );
  await assert.rejects(tasks[1], { kind: 'internal' });
  assert.equal(bodies.held, 0);
  const gone = new AbortController();
  const waits = [thread.read('v2', long(), signal), thread.read('v2', long(), gone.signal)];
  gone.abort();
  await assert.rejects(waits[1], { kind: 'canceled' });
  assert.equal((await waits[0]).id.length, 100_000);
});

test('the thread ends when nobody needs it, and starts again', async () => {
  const thread = new JsonThread(new ByteBudget(2 ** 30), 50);
  const read = () => thread.read('v2', Buffer.from(JSON.stringify({ inputs: [], id: 'x'.repeat(2 ** 17) })), new AbortController().signal);
  for (let i = 0; i < 2; i++) {
    assert.equal((await read()).id.length, 2 ** 17);
    assert.equal(thread.isRunning, true);
    await until(() => !thread.isRunning, 'the thread has ended');
  }
});

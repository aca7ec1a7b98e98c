import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { until } from '../../../__test__/lib/wait.mjs';
import { DIGITS, PICTURE, post, repositoryOf, slowModel, startServer } from './support.mjs';

test('models whose computations take seconds do not starve others', async (t) => {
  const repository = repositoryOf(t, { 'digits.onnx': DIGITS });
  const { file, feeds, remove } = slowModel();
  t.after(remove);
  for (const name of ['slow-a', 'slow-b', 'slow-c']) cpSync(file, path.join(repository, `${name}.onnx`));
  const server = await startServer(t, { models: repository });
  const { x } = feeds;
  const body = JSON.stringify({
    inputs: [{ name: 'x', shape: x.shape, datatype: 'FP32', parameters: { binary_data_size: x.data.byteLength } }],
    outputs: [],
    parameters: { binary_data_output: true },
  });
  const binary = Buffer.concat([Buffer.from(body), Buffer.from(x.data.buffer)]);
  const ended = [];
  const slow = ['slow-a', 'slow-b', 'slow-c'].map(async (name) => {
    const { status } = await post(`${server.urls.http}/v2/models/${name}/infer`, binary, { 'inference-header-content-length': String(body.length) });
    ended.push(name);
    return status;
  });
  const waiting = () => ['slow-a', 'slow-b', 'slow-c'].reduce((sum, name) => sum + server.registry.get(name).model.waiting, 0);
  await until(() => waiting() === 0, 'all slow requests have left their queues');
  for (let i = 0; i < 20; i++) assert.equal((await post(`${server.urls.http}/v2/models/digits/infer`, { inputs: [PICTURE] })).status, 200);
  assert.deepEqual(ended, [], 'twenty short requests ended before the first slow one');
  assert.deepEqual(await Promise.all(slow), [200, 200, 200]);
});

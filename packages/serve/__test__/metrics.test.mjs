// What the metrics count, as Triton and vLLM name it.

import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { until } from '../../../__test__/lib/wait.mjs';
import { encoder, sentenceFiles } from './embedding-support.mjs';
import { KINDS, modelsOf } from './generation-support.mjs';
import { DIGITS, PICTURE, post, postJson, repositoryOf, startServer } from './support.mjs';

/** Reads numbers of a server. @param {string} url */
const metricsOf = (url) => async (/** @type {string} */ name, /** @type {Record<string, string>} */ labels) => {
  const lines = (await (await fetch(`${url}/metrics`)).text()).split('\n');
  const found = lines.filter((line) => line.startsWith(`${name}{`) && Object.entries(labels).every(([label, value]) => line.includes(`${label}="${value}"`)));
  return found.map((line) => Number(line.slice(line.lastIndexOf(' '))));
};

test('requests that fail are counted by reason', async (t) => {
  const repository = repositoryOf(t, { 'digits/1/model.onnx': DIGITS, 'full/1/model.onnx': DIGITS, 'full/model.json': { maxQueue: 0 } });
  const { urls } = await startServer(t, { models: repository });
  const read = metricsOf(urls.http);
  const failures = async (/** @type {string} */ model) => {
    const counts = ['REJECTED', 'CANCELED', 'BACKEND', 'OTHER'].map(async (reason) => (await read('nv_inference_request_failure', { model, reason }))[0]);
    return Promise.all(counts);
  };
  assert.deepEqual(await failures('digits'), [0, 0, 0, 0], 'all are there before the first request');
  const infer = (/** @type {string} */ model, /** @type {object} */ body) => post(`${urls.http}/v2/models/${model}/infer`, body);
  assert.equal((await infer('full', { inputs: [PICTURE] })).status, 503);
  assert.equal((await infer('digits', { inputs: [{ ...PICTURE, shape: [1, 64] }] })).status, 400);
  assert.deepEqual(
    [await failures('full'), await failures('digits')],
    [
      [1, 0, 0, 0],
      [0, 0, 0, 1],
    ],
  );
});

test('a batch that fails, so that its requests are computed one by one, is counted', async (t) => {
  const files = sentenceFiles('words', encoder(['last_hidden_state'], { words: 6 }));
  const repository = repositoryOf(t, { ...files, 'words/model.json': { maxBatch: 4, maxDelayMs: 60_000 } });
  const { urls } = await startServer(t, { models: repository });
  const read = metricsOf(urls.http);
  const embed = (/** @type {number} */ id) => postJson(`${urls.http}/v1/embeddings`, { model: 'words', input: [id] });
  const statuses = async (/** @type {number[]} */ ids) => (await Promise.all(ids.map(embed))).map(({ status }) => status);
  assert.deepEqual(await statuses([2, 3, 4, 5]), [200, 200, 200, 200]);
  assert.deepEqual(await read('webnn_serve_batch_retries_total', { model: 'words' }), [0]);
  // The tokenizer has this token, and the model does not.
  assert.deepEqual(await statuses([2, 6, 4, 5]), [200, 400, 200, 200]);
  assert.deepEqual(await read('webnn_serve_batch_retries_total', { model: 'words' }), [1]);
  assert.deepEqual(await read('nv_inference_request_failure', { model: 'words', reason: 'OTHER' }), [1]);
  assert.equal((await postJson(`${urls.http}/v1/embeddings`, { model: 'words', input: 'cat '.repeat(100) })).status, 400);
  assert.deepEqual(await read('nv_inference_request_failure', { model: 'words', reason: 'OTHER' }), [2]);
});

test('texts: how they end, how long they take, what their caches hold, and what is refused', async (t) => {
  const repository = await modelsOf(t, { text: KINDS.together });
  const { urls } = await startServer(t, { models: repository, defaults: { maxSequences: 1, maxQueue: 0, threads: 1 } });
  const read = metricsOf(urls.http);
  const labels = { model_name: 'text', version: '1', engine: '0' };
  const one = async (/** @type {string} */ name, more = {}) => (await read(name, { ...labels, ...more }))[0];
  const complete = (/** @type {object} */ body, options = {}) =>
    fetch(`${urls.http}/v1/completions`, { method: 'POST', body: JSON.stringify({ model: 'text', prompt: 'a', ...body }), ...options });
  assert.equal(await one('vllm:kv_cache_usage_perc'), 0);
  await (await complete({ max_tokens: 3, logit_bias: { 257: -100 } })).json();
  assert.equal(await one('vllm:request_success_total', { finished_reason: 'length' }), 1);
  assert.equal(await one('vllm:e2e_request_latency_seconds_count'), 1);

  // There is one place, and nothing may wait: a request for more answers is refused at once, and none of them begins.
  for (const n of [2, 128]) assert.equal((await complete({ max_tokens: 500, n })).status, 503);
  assert.deepEqual(await read('nv_inference_request_failure', { model: 'text', reason: 'REJECTED' }), [2]);
  assert.deepEqual(await read('nv_inference_request_failure', { model: 'text', reason: 'CANCELED' }), [0]);
  // Nobody needs a text whose caller is gone.
  const controller = new AbortController();
  const { body } = await complete({ max_tokens: 500, logit_bias: { 257: -100 }, stream: true }, { signal: controller.signal });
  await body?.getReader().read();
  controller.abort();
  await until(async () => (await one('vllm:num_requests_running')) === 0, 'no text is running');
  assert.deepEqual(await read('nv_inference_request_failure', { model: 'text', reason: 'CANCELED' }), [1]);
  assert.equal(await one('vllm:request_success_total', { finished_reason: 'abort' }), 1);
  assert.equal(await one('vllm:e2e_request_latency_seconds_count'), 2);
  assert.equal(await one('vllm:kv_cache_usage_perc'), 0);

  // What does not fit the model.
  for (const body of [{ prompt: 'a'.repeat(600) }, { prompt: 'a', max_tokens: 512 }, { prompt: [999] }, { logit_bias: { 999: 1 } }]) {
    assert.equal((await complete(body)).status, 400);
  }
  const messages = [{ role: 'user', content: 'a'.repeat(600) }];
  assert.equal((await post(`${urls.http}/v1/chat/completions`, { model: 'text', messages })).status, 400);
  assert.deepEqual(await read('nv_inference_request_failure', { model: 'text', reason: 'OTHER' }), [5]);
});

test('numbers of now are gone with their model', async (t) => {
  const repository = await modelsOf(t, { text: KINDS.together });
  cpSync(DIGITS, path.join(repository, 'digits.onnx'));
  const { urls } = await startServer(t, { models: repository, defaults: { threads: 1 } });
  const read = metricsOf(urls.http);
  await postJson(`${urls.http}/v1/completions`, { model: 'text', prompt: 'a', max_tokens: 2 });
  const gauges = ['vllm:num_requests_running', 'vllm:num_requests_waiting', 'vllm:kv_cache_usage_perc', 'webnn_generation_max_batch'];
  const pending = ['nv_inference_pending_request_count', 'webnn_serve_queue_length'];
  const counts = async () => {
    const all = [...gauges.map((name) => read(name, { model_name: 'text' })), ...pending.map((name) => read(name, { model: 'text' }))];
    return (await Promise.all(all)).map(({ length }) => length);
  };
  assert.deepEqual(await counts(), [1, 1, 1, 1, 1, 1]);
  assert.deepEqual(await read('webnn_generation_max_batch', { model_name: 'text' }), [8]);
  await post(`${urls.http}/v2/repository/models/text/load`, {});
  assert.deepEqual(await counts(), [1, 1, 1, 1, 1, 1], 'a model that is loaded again has them once');
  await post(`${urls.http}/v2/repository/models/text/unload`, {});
  assert.deepEqual(await counts(), [0, 0, 0, 0, 0, 0]);
  assert.deepEqual(await read('nv_inference_pending_request_count', { model: 'digits' }), [0]);
});

// autocannon, which keeps connections busy: every request is answered.

import assert from 'node:assert/strict';
import test from 'node:test';
import autocannon from 'autocannon';
import { DIGITS, PICTURE, repositoryOf, startServer } from '../../../packages/serve/__test__/support.mjs';

const REQUESTS = 3000;

test(`${REQUESTS} requests over 20 connections`, async (t) => {
  const server = await startServer(t, { models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS }) });
  const result = await autocannon({
    url: `${server.urls.http}/v2/models/digits/infer`,
    method: 'POST',
    body: JSON.stringify({ inputs: [PICTURE] }),
    connections: 20,
    amount: REQUESTS,
  });
  assert.deepEqual([result['2xx'], result.non2xx, result.errors, result.timeouts], [REQUESTS, 0, 0, 0]);
});

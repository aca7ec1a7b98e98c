// Clients of other people: npm's `openai` and `ai`, and those of Python, which scripts/suites/serve.mjs installs.

import assert from 'node:assert/strict';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embed, embedMany } from 'ai';
import OpenAI from 'openai';
import { DIGITS, repositoryOf, startServer, wordsFiles } from '../../../packages/serve/__test__/support.mjs';
import { runCommand } from '../../lib/processes.mjs';
import { defined } from '../../lib/types.mjs';

/** A server with a model for digits and an encoder that knows nine words. */
const bothModels = (t, options) =>
  startServer(t, {
    models: repositoryOf(t, {
      'digits/1/model.onnx': DIGITS,
      ...wordsFiles('words'),
    }),
    ...options,
  });

test('openai: embeddings of one text, of many, and of tokens, as numbers and as base64', async (t) => {
  const server = await bothModels(t);
  const client = new OpenAI({ baseURL: `${server.urls.http}/v1`, apiKey: 'none', maxRetries: 0 });
  const models = await client.models.list();
  assert.deepEqual(
    models.data.map(({ id }) => id),
    ['words'],
  );
  assert.equal((await client.models.retrieve('words')).id, 'words');
  // The client asks for base64 where the caller does not say it.
  const one = await client.embeddings.create({ model: 'words', input: 'a dog' });
  const many = await client.embeddings.create({ model: 'words', input: ['a horse and a dog', 'a dog'], encoding_format: 'float' });
  assert.deepEqual(
    many.data.map(({ index }) => index),
    [0, 1],
  );
  one.data[0].embedding.forEach((value, i) => assert.ok(Math.abs(value - many.data[1].embedding[i]) < 1e-6));
  const tokens = await client.embeddings.create({ model: 'words', input: [[1, 2], [3]], encoding_format: 'float' });
  assert.equal(tokens.data.length, 2);
  assert.deepEqual(tokens.usage, { prompt_tokens: 3, total_tokens: 3 });
  await assert.rejects(client.embeddings.create({ model: 'digits', input: 'a' }), { status: 400, param: 'model' });
  await assert.rejects(client.embeddings.create({ model: 'words', input: 'dog '.repeat(100) }), { status: 400, code: 'context_length_exceeded' });
  await assert.rejects(client.embeddings.create({ model: 'words', input: [[99_999]] }), { status: 400 });
});

test('ai: embeddings', async (t) => {
  const server = await bothModels(t);
  const provider = createOpenAICompatible({ name: 'local', baseURL: `${server.urls.http}/v1` });
  const model = provider.embeddingModel('words');
  const { embedding } = await embed({ model, value: 'a dog', maxRetries: 0 });
  const { embeddings } = await embedMany({ model, values: ['a dog', 'bread with cheese'], maxRetries: 0 });
  embedding.forEach((value, i) => assert.ok(Math.abs(value - embeddings[0][i]) < 1e-6));
});

for (const [clients, name] of [
  ['tritonclient over HTTP, gRPC and asyncio, and openai', 'clients.py'],
  ['those of KServe', 'kserve_clients.py'],
]) {
  test(`Python's clients: ${clients}`, async (t) => {
    const server = await bothModels(t, { grpc: 0 });
    const addresses = [server.urls.http, server.urls.grpc].map((url) => url.replace(/^\w+:\/\//, ''));
    const program = fileURLToPath(new URL(name, import.meta.url));
    const { code, stdout, stderr } = await runCommand(defined(process.env.SERVE_PYTHON), [program, ...addresses]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /ok\s*$/);
  });
}

// Texts over the clients of other people: npm's `ai`, Python's `openai` and `tritonclient`, which scripts/suites/serve.mjs installs.

import assert from 'node:assert/strict';
import test from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, streamText } from 'ai';
import { modelsOf } from '../../../packages/serve/__test__/generation-support.mjs';
import { startServer } from '../../../packages/serve/__test__/support.mjs';
import { LETTERS } from '../../examples/model-folder.mjs';
import { greedyTokens } from '../../onnx/language-model.mjs';
import { runCommand } from '../../lib/processes.mjs';
import { defined } from '../../lib/types.mjs';

/** Letters without an end. */
const style = { ...LETTERS, next: (/** @type {number} */ sum) => 97 + (sum % 26) };

/** What the model writes behind a text. */
const textOf = (/** @type {string} */ prompt, /** @type {number} */ count) => String.fromCharCode(...greedyTokens(style, [...Buffer.from(prompt)], count));

/** The template around a message has marks, which are one token each. */
const asked = (/** @type {string} */ text) =>
  String.fromCharCode(...greedyTokens(style, [256, ...Buffer.from(`user\n${text}`), 257, 10, 256, ...Buffer.from('assistant\n')], 12));

/** A server whose model writes letters. */
async function lettersServer(t) {
  return startServer(t, { models: await modelsOf(t, { letters: { style } }), grpc: 0 });
}

test('ai: a text at once, and as a stream', async (t) => {
  const server = await lettersServer(t);
  const model = createOpenAICompatible({ name: 'local', baseURL: `${server.urls.http}/v1` }).chatModel('letters');
  const options = { model, prompt: 'Hello', maxOutputTokens: 12, maxRetries: 0 };
  const { text, finishReason } = await generateText(options);
  assert.equal(text, asked('Hello'));
  assert.equal(finishReason, 'length');
  let streamed = '';
  for await (const piece of streamText(options).textStream) streamed += piece;
  assert.equal(streamed, text);
});

test('ai: an error in the middle of a stream is seen, behind heartbeats', async (t) => {
  const repository = await modelsOf(t, { letters: { style } });
  const server = await startServer(t, { models: repository, limits: { heartbeatMs: 10 } });
  const generator = /** @type {import('../../../packages/serve/lib/models/generator.js').Generator} */ (server.registry.get('letters').model);
  const generate = generator.generate.bind(generator);
  generator.generate = async (prompt, wishes, options) => {
    // Some heartbeats come first.
    await setTimeout(100);
    let pieces = 0;
    return generate(prompt, wishes, {
      ...options,
      onText(...piece) {
        options?.onText?.(...piece);
        pieces += 1;
        if (pieces === 3) throw new TypeError('a mistake');
      },
    });
  };
  const model = createOpenAICompatible({ name: 'local', baseURL: `${server.urls.http}/v1` }).chatModel('letters');
  /** @type {any[]} */
  const parts = [];
  for await (const part of streamText({ model, prompt: 'Hello', maxOutputTokens: 12, maxRetries: 0, onError: () => undefined }).fullStream) parts.push(part);
  const text = parts.flatMap((part) => (part.type === 'text-delta' ? part.text : [])).join('');
  assert.equal(text, asked('Hello').slice(0, 3));
  assert.match(String(parts.find(({ type }) => type === 'error')?.error), /internal error/);
});

test('Python: openai in both forms, as a stream and at the same time, and tritonclient', async (t) => {
  const server = await lettersServer(t);
  const program = `
import concurrent.futures, sys
import numpy as np, openai
import tritonclient.grpc as grpc, tritonclient.http as http

address, grpc_address = sys.argv[1:3]
client = openai.OpenAI(base_url=f"http://{address}/v1", api_key="none", max_retries=0)
complete = lambda prompt: client.completions.create(model="letters", prompt=prompt, max_tokens=12, temperature=0).choices[0].text
print(complete("Hello"))
messages = [{"role": "user", "content": "Hello"}]
print(client.chat.completions.create(model="letters", messages=messages, max_tokens=12).choices[0].message.content)
stream = client.chat.completions.create(model="letters", messages=messages, max_tokens=12, stream=True)
print("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices))
prompts = [f"text {i}" for i in range(12)]
with concurrent.futures.ThreadPoolExecutor(12) as pool:
    print(",".join(pool.map(complete, prompts)))
for module, where in ((http, address), (grpc, grpc_address)):
    text = module.InferInput("text_input", [1], "BYTES")
    text.set_data_from_numpy(np.array([b"Hello"], dtype=object))
    count = module.InferInput("max_tokens", [1], "INT32")
    count.set_data_from_numpy(np.array([12], dtype=np.int32))
    print(module.InferenceServerClient(where).infer("letters", [text, count]).as_numpy("text_output")[0].decode())
`;
  const addresses = [server.urls.http, server.urls.grpc].map((url) => url.replace(/^\w+:\/\//, ''));
  const { code, stdout, stderr } = await runCommand(defined(process.env.SERVE_PYTHON), ['-c', program, ...addresses]);
  assert.equal(code, 0, stderr);
  const many = Array.from({ length: 12 }, (_, i) => textOf(`text ${i}`, 12)).join();
  const one = textOf('Hello', 12);
  assert.deepEqual(stdout.trim().split(/\r?\n/), [one, asked('Hello'), asked('Hello'), many, one, one]);
});

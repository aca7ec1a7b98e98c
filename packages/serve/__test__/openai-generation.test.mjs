// Generated texts over OpenAI's API, with npm's client and without.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import test, { describe } from 'node:test';
import { until } from '../../../__test__/lib/wait.mjs';
import { ASKED, generationServer, HELLO, textOf } from './openai-support.mjs';
import { postJson } from './support.mjs';

describe("npm's client", () => {
  test('completions: a text, several, tokens, and several answers', async (t) => {
    const { client } = await generationServer(t);
    const one = await client.completions.create({ model: 'letters', prompt: 'Hello', max_tokens: 8 });
    assert.deepEqual(one.choices, [{ index: 0, text: textOf('Hello', 8), logprobs: null, finish_reason: 'length' }]);
    assert.deepEqual(one.usage, { prompt_tokens: 5, completion_tokens: 8, total_tokens: 13 });
    assert.equal((await client.completions.create({ model: 'letters', prompt: 'Hello' })).choices[0].text, textOf('Hello', 16));
    const several = await client.completions.create({ model: 'letters', prompt: ['Hello', 'you'], n: 2, max_tokens: 3 });
    assert.deepEqual(
      several.choices.map(({ index, text }) => [index, text]),
      ['Hello', 'Hello', 'you', 'you'].map((prompt, i) => [i, textOf(prompt, 3)]),
    );
    assert.deepEqual(several.usage, { prompt_tokens: 8, completion_tokens: 12, total_tokens: 20 });
    const tokens = await client.completions.create({ model: 'letters', prompt: [[72, 105], [72]], max_tokens: 3 });
    assert.deepEqual(
      tokens.choices.map(({ text }) => text),
      ['Hi', 'H'].map((prompt) => textOf(prompt, 3)),
    );
    const whole = textOf('Hello', 12);
    const stopped = await client.completions.create({ model: 'letters', prompt: 'Hello', max_tokens: 12, stop: ['??', whole.slice(5, 8)] });
    assert.equal(stopped.choices[0].text, whole.slice(0, whole.indexOf(whole.slice(5, 8))));
    assert.equal(stopped.choices[0].finish_reason, 'stop');
  });

  test('chat: an answer, parts, logprobs', async (t) => {
    const { client } = await generationServer(t);
    const { choices, usage } = await client.chat.completions.create({ model: 'letters', messages: HELLO, max_completion_tokens: 6 });
    const [{ message, finish_reason: reason }] = choices;
    // The marks are one token each, which the sum of the model takes in.
    assert.equal(message.role, 'assistant');
    assert.equal(message.content?.length, 6);
    assert.equal(reason, 'length');
    assert.equal(usage?.completion_tokens, 6);
    /** @type {any[]} */
    const inParts = [{ role: 'user', content: ['Hel', 'lo'].map((text) => ({ type: 'text', text })) }];
    const parts = await client.chat.completions.create({ model: 'letters', messages: inParts, max_completion_tokens: 6, logprobs: true, top_logprobs: 2 });
    assert.equal(parts.choices[0].message.content, message.content);
    const content = parts.choices[0].logprobs?.content ?? [];
    assert.equal(content.map(({ token }) => token).join(''), message.content);
    assert.ok(content.every(({ logprob, top_logprobs: top }) => logprob <= 0 && top.length === 2 && top[0].logprob >= logprob));
    const completion = await client.completions.create({ model: 'letters', prompt: 'Hello', max_tokens: 3, logprobs: 1 });
    assert.deepEqual(completion.choices[0].logprobs?.text_offset, [0, 1, 2]);
    assert.deepEqual(completion.choices[0].logprobs?.tokens, [...textOf('Hello', 3)]);
  });

  test('streams are the whole answers in pieces', async (t) => {
    const { client } = await generationServer(t);
    for (const model of ['letters', 'together']) {
      const request = { model, messages: HELLO, max_tokens: 9, temperature: 0.7, seed: 4, n: 2 };
      const whole = await client.chat.completions.create(request);
      const texts = ['', ''];
      /** @type {any[]} */
      const reasons = [null, null];
      let usage;
      for await (const chunk of await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } })) {
        for (const { index, delta, finish_reason: reason } of chunk.choices) {
          texts[index] += delta.content ?? '';
          reasons[index] ??= reason;
        }
        if (chunk.choices.length > 0) assert.equal(chunk.usage, null);
        else usage = chunk.usage;
      }
      assert.deepEqual(
        texts,
        whole.choices.map(({ message }) => message.content),
      );
      assert.deepEqual(
        reasons,
        whole.choices.map((choice) => choice.finish_reason),
      );
      assert.deepEqual(usage, whole.usage);
      let text = '';
      for await (const { choices } of await client.completions.create({ model, prompt: 'Hello', max_tokens: 9, stream: true })) text += choices[0].text;
      assert.equal(text, (await client.completions.create({ model, prompt: 'Hello', max_tokens: 9 })).choices[0].text);
    }
  });

  test('no tokens, and the prompt before the answer', { timeout: 60_000 }, async (t) => {
    const { client } = await generationServer(t);
    const complete = async (request) => {
      const whole = await client.completions.create({ model: 'letters', ...request });
      const texts = whole.choices.map(() => '');
      const reasons = whole.choices.map(() => '');
      const stream = /** @type {any} */ (await client.completions.create({ model: 'letters', ...request, stream: true }));
      for await (const { choices } of stream) {
        for (const { index, text, finish_reason: reason } of choices) {
          texts[index] += text;
          reasons[index] = reason;
        }
      }
      assert.deepEqual(
        whole.choices.map(({ text, finish_reason: reason }) => [text, reason]),
        texts.map((text, i) => [text, reasons[i]]),
      );
      return { texts, reasons, usage: whole.usage };
    };
    assert.deepEqual(await complete({ prompt: 'Hello', max_tokens: 0 }), {
      ...{ texts: [''], reasons: ['length'] },
      usage: { prompt_tokens: 5, completion_tokens: 0, total_tokens: 5 },
    });
    assert.deepEqual(await complete({ prompt: 'Hello', max_tokens: 0, echo: true }), {
      ...{ texts: ['Hello'], reasons: ['length'] },
      usage: { prompt_tokens: 5, completion_tokens: 0, total_tokens: 5 },
    });
    const { texts } = await complete({ prompt: ['Hello', 'you'], n: 2, max_tokens: 3, echo: true });
    assert.deepEqual(
      texts,
      ['Hello', 'Hello', 'you', 'you'].map((prompt) => prompt + textOf(prompt, 3)),
    );
    assert.deepEqual((await complete({ prompt: [72, 105], max_tokens: 3, echo: true })).texts, [`Hi${textOf('Hi', 3)}`]);
    await assert.rejects(client.completions.create({ model: 'letters', prompt: 'a'.repeat(300), max_tokens: 0 }), { code: 'context_length_exceeded' });
  });

  test('top_p 0 takes the most likely tokens, as at OpenAI', async (t) => {
    const { client } = await generationServer(t);
    const { choices } = await client.completions.create({ model: 'letters', prompt: 'Hello', max_tokens: 12, top_p: 0, temperature: 2, seed: 1 });
    assert.equal(choices[0].text, textOf('Hello', 12));
  });

  test('conversations with all roles, and answers as clients send them back', async (t) => {
    const { client } = await generationServer(t);
    /** @type {any} */
    const request = { model: 'letters', max_tokens: 4 };
    const first = await client.chat.completions.create({ ...request, messages: [{ role: 'developer', content: 'Be short.' }, ...HELLO] });
    const again = await client.chat.completions.create({ ...request, messages: [{ role: 'system', content: 'Be short.' }, ...HELLO] });
    assert.equal(first.choices[0].message.content, again.choices[0].message.content);
    const messages = [...HELLO, first.choices[0].message, { role: 'user', content: 'And?', name: 'Ann' }];
    assert.equal((await client.chat.completions.create({ ...request, messages })).choices[0].message.content?.length, 4);
  });

  test('one who aborts frees the place', async (t) => {
    const { client, metric } = await generationServer(t, { maxSequences: 1 });
    // The context has room for 256 tokens, which are soon written: only a prompt that waits is sure to be found.
    const stream = await client.completions.create({ model: 'letters', prompt: 'Hello', max_tokens: 250, stream: true });
    let pieces = 0;
    for await (const _ of stream) {
      pieces += 1;
      if (pieces === 2) break;
    }
    const text = await client.completions.create({ model: 'letters', prompt: 'Hello', max_tokens: 4 });
    assert.equal(text.choices[0].text, textOf('Hello', 4));
    await until(async () => (await metric('vllm:num_requests_running')) === 0, 'no text is running');
    assert.ok((await metric('vllm:generation_tokens_total')) < 254);
  });

  test('wrong requests say what is wrong', async (t) => {
    const { client } = await generationServer(t);
    const chat = (request) => client.chat.completions.create({ model: 'letters', messages: HELLO, ...request });
    const complete = (request) => client.completions.create({ model: 'letters', prompt: 'Hello', ...request });
    const tool = { type: 'function', function: { name: 'f', parameters: {} } };
    const image = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:,' } }] }];
    const unsupported = (param) => ({ status: 400, code: 'unsupported_parameter', param });
    await assert.rejects(chat({ tools: [tool] }), unsupported('tools'));
    await assert.rejects(chat({ response_format: { type: 'json_object' } }), unsupported('response_format'));
    await assert.rejects(complete({ echo: true, logprobs: 1 }), unsupported('logprobs'));
    await assert.rejects(complete({ guided_json: {} }), unsupported('guided_json'));
    await assert.rejects(complete({ suffix: 'x' }), unsupported('suffix'));
    await assert.rejects(complete({ best_of: 2 }), unsupported('best_of'));
    await assert.rejects(chat({ messages: image }), { status: 400, param: 'messages[0].content' });
    await assert.rejects(chat({ messages: [] }), { status: 400, param: 'messages' });
    await assert.rejects(chat({ model: 'plain' }), { status: 400, param: 'model', message: /no chat template; use \/v1\/completions/ });
    assert.equal((await complete({ model: 'plain', max_tokens: 2 })).choices[0].text, textOf('Hello', 2));
    const tooLong = { status: 400, code: 'context_length_exceeded' };
    await assert.rejects(complete({ prompt: 'a'.repeat(300) }), tooLong);
    await assert.rejects(complete({ max_tokens: 300 }), tooLong);
    await assert.rejects(chat({ messages: [{ role: 'user', content: 'a'.repeat(300) }] }), { ...tooLong, param: 'messages' });
    for (const [param, value] of Object.entries({
      temperature: 3,
      top_p: 2,
      n: 0,
      stop: ['a', 'b', 'c', 'd', 'e'],
      max_tokens: -1,
      seed: 0.5,
      logit_bias: { a: 1 },
      presence_penalty: 'x',
      stream: 'yes',
      prompt: [],
      logprobs: 6,
    })) {
      await assert.rejects(complete({ [param]: value }), { status: 400, param }, param);
    }
    await assert.rejects(complete({ logit_bias: { 999: 1 } }), { status: 400, param: 'logit_bias' });
    await assert.rejects(complete({ model: 'none' }), { status: 404, code: 'model_not_found' });
    await assert.rejects(client.embeddings.create({ model: 'letters', input: 'a' }), {
      ...{ status: 400, param: 'model' },
      message: '400 model "letters" does not do embeddings, it is a model for generation; call /v1/completions or /v1/chat/completions',
    });
    // What has no effect here is no error.
    const { choices } = await chat({
      max_tokens: 1,
      user: 'me',
      metadata: { a: 'b' },
      store: false,
      tools: [],
      response_format: { type: 'text' },
      top_k: null,
    });
    assert.equal(choices.length, 1);
  });
});

test('many callers at once get the answers of single ones, and the metrics count them', async (t) => {
  const { client, metric } = await generationServer(t, { maxSequences: 4 });
  const requests = Array.from({ length: 12 }, (_, seed) => ({ model: 'together', prompt: 'x'.repeat(seed + 1), max_tokens: 20 + seed, temperature: 1, seed }));
  const together = await Promise.all(requests.map((request) => client.completions.create(request)));
  for (const [i, request] of requests.entries()) {
    assert.equal((await client.completions.create(request)).choices[0].text, together[i].choices[0].text, `text ${i}`);
  }
  const count = 2 * together.reduce((sum, { usage }) => sum + (usage?.completion_tokens ?? 0), 0);
  assert.ok(count > 200);
  // The token that ends a text is generated and not part of it.
  assert.ok((await metric('vllm:generation_tokens_total', 'together')) >= count);
  assert.equal(await metric('vllm:prompt_tokens_total', 'together'), 2 * 78);
  assert.equal(await metric('vllm:time_to_first_token_seconds_count', 'together'), 24);
  assert.equal(await metric('vllm:num_requests_waiting', 'together'), 0);
  assert.equal(await metric('webnn_generation_max_batch', 'together'), 4);
  assert.equal(await metric('webnn_generation_max_batch', 'letters'), 1);
});

test('a request without a body is the fault of its caller', async (t) => {
  const { url } = await generationServer(t);
  for (const path of ['completions', 'chat/completions', 'embeddings']) assert.equal((await fetch(`${url}/v1/${path}`, { method: 'POST' })).status, 400);
});

test('more texts than a request may have are refused before they are read', async (t) => {
  const { url } = await generationServer(t);
  const messages = Array(1000).fill({ role: 'user', content: '' });
  const { status, json } = await postJson(`${url}/v1/chat/completions`, { model: 'together', messages });
  assert.deepEqual([status, json.error.code, json.error.message.includes('1000 messages')], [400, 'context_length_exceeded', true]);
  const prompts = await postJson(`${url}/v1/completions`, { model: 'together', prompt: Array(129).fill('a') });
  assert.deepEqual([prompts.status, prompts.json.error.param], [400, 'prompt']);
});

test('the stream of a busy server is an error with a status', async (t) => {
  const { client } = await generationServer(t, { maxSequences: 1, maxQueue: 0 });
  const request = { model: 'letters', prompt: 'Hello', max_tokens: 200, stream: true };
  /** @type {any[]} */
  const answers = await Promise.allSettled(Array.from({ length: 3 }, () => client.completions.create(request)));
  const refused = answers.filter(({ status }) => status === 'rejected');
  assert.equal(refused.length, 2);
  for (const { reason } of refused) assert.equal(reason.status, 503);
});

test('an error in the middle of a stream is an event with data', async (t) => {
  const { server, client } = await generationServer(t);
  const { model } = server.registry.get('letters');
  const generate = model.generate.bind(model);
  let pieces = 0;
  model.generate = (prompt, wishes, options) =>
    generate(prompt, wishes, {
      ...options,
      onText(...piece) {
        options.onText(...piece);
        pieces += 1;
        if (pieces === 3) throw new TypeError('a mistake');
      },
    });
  const stream = await client.completions.create({ model: 'letters', prompt: 'Hello', max_tokens: 20, stream: true });
  let text = '';
  const read = async () => {
    for await (const { choices } of stream) text += choices[0].text;
  };
  await assert.rejects(read(), /internal error/);
  assert.equal(text, textOf('Hello', 3));
});

test('one who does not read does not stop others, and is not waited for', async (t) => {
  const { url, client, metric } = await generationServer(t, { maxSequences: 2 });
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  socket.pause();
  // Each token of 20 with probabilities of as many is an event of 2 KB: together more than sockets hold.
  const body = JSON.stringify({ model: 'letters', messages: HELLO, n: 128, logprobs: true, top_logprobs: 20, max_tokens: 200, stream: true });
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: ${hostname}:${port}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  await until(async () => (await metric('vllm:generation_tokens_total')) > 0, 'texts are generated');
  const { choices } = await client.completions.create({ model: 'letters', prompt: 'Hello', max_tokens: 5 });
  assert.equal(choices[0].text, textOf('Hello', 5));
  await until(async () => (await metric('vllm:num_requests_running')) === 0, 'no text is running');
  assert.ok((await metric('vllm:generation_tokens_total')) < 128 * 200, 'the texts nobody reads were canceled');
  socket.destroy();
});

test('the server ends when what it has begun is answered', async (t) => {
  const { server, client } = await generationServer(t, { maxSequences: 2 });
  const requests = [1, 2, 3].map(() => client.completions.create({ model: 'letters', prompt: 'Hello', max_tokens: 100, stream: true }));
  const streams = await Promise.all(requests);
  const closed = server.close();
  for (const stream of streams) {
    let text = '';
    for await (const { choices } of stream) text += choices[0].text;
    assert.equal(text, textOf('Hello', 100));
  }
  await closed;
});

test('texts over the Open Inference Protocol', async (t) => {
  const { url } = await generationServer(t);
  const infer = `${url}/v2/models/letters/infer`;
  const inputs = [{ name: 'text_input', datatype: 'BYTES', shape: [1], data: ['Hello'] }];
  const limit = { name: 'max_tokens', datatype: 'INT32', shape: [1], data: [7] };
  const { status, json } = await postJson(infer, { inputs: [...inputs, limit] });
  assert.equal(status, 200);
  assert.deepEqual(json.outputs, [{ name: 'text_output', datatype: 'BYTES', shape: [1], data: [textOf('Hello', 7)] }]);
  assert.equal((await postJson(infer, { inputs })).json.outputs[0].data[0], textOf('Hello', 16));
  assert.equal((await postJson(infer, { inputs: [limit] })).status, 400);
  const { json: chat } = await postJson(`${url}/v1/chat/completions`, { model: 'letters', messages: HELLO, max_tokens: 4 });
  const { json: completion } = await postJson(`${url}/v1/completions`, { model: 'letters', prompt: ASKED, max_tokens: 4 });
  assert.equal(chat.choices[0].message.content, completion.choices[0].text);
});

test('log probabilities have the bytes of parts of characters', async (t) => {
  const { client } = await generationServer(t);
  const request = { model: 'letters', max_tokens: 3, logit_bias: { 226: 100 } };
  const { choices } = await client.chat.completions.create({ ...request, messages: HELLO, logprobs: true });
  assert.deepEqual(
    choices[0].logprobs?.content?.map(({ token, bytes }) => [token, bytes]),
    Array(3).fill(['\\xe2', [0xe2]]),
  );
  const completion = await client.completions.create({ ...request, prompt: 'Hello', logprobs: 0 });
  assert.deepEqual(completion.choices[0].logprobs?.tokens, Array(3).fill('bytes:\\xe2'));
});

test("vLLM's parameters reach the generator", async (t) => {
  const { client } = await generationServer(t);
  const complete = async (/** @type {any} */ body) =>
    (await client.completions.create({ model: 'letters', prompt: 'Hello', max_tokens: 12, ...body })).choices[0];
  const whole = textOf('Hello', 12);
  const first = whole.charCodeAt(3);
  assert.equal((await complete({ stop_token_ids: [first] })).text, whole.slice(0, whole.indexOf(String.fromCharCode(first))));
  assert.equal((await complete({ min_p: 1, temperature: 2, seed: 1 })).text, whole);
  assert.equal((await complete({ logit_bias: { 257: 100 }, min_tokens: 4 })).finish_reason, 'stop');
  assert.equal((await complete({ logit_bias: { 257: 100 }, ignore_eos: true })).finish_reason, 'length');
  await assert.rejects(complete({ stop_token_ids: [999] }), { status: 400, param: 'stop_token_ids' });
});

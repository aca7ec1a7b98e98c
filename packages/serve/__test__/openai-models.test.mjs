// Which models OpenAI's API has, embeddings, and the OpenAPI document.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import OpenAI from 'openai';
import { writeFolder } from '../../../__test__/examples/model-folder.mjs';
import path from 'node:path';
import { DIGITS, postJson, repositoryOf, startServer, wordsFiles } from './support.mjs';

const getJson = async (/** @type {string} */ url) => {
  const response = await fetch(url);
  return { status: response.status, json: await response.json() };
};

/** A server with a model of each kind. */
async function mixedServer(t, options = {}) {
  const repository = repositoryOf(t, { 'digits/1/model.onnx': DIGITS, ...wordsFiles('words') });
  await writeFolder(path.join(repository, 'letters'));
  await writeFolder(path.join(repository, 'plain'), { tokenizerConfig: { chat_template: undefined } });
  const server = await startServer(t, { models: repository, defaults: { threads: 1 }, ...options });
  return { server, url: server.urls.http };
}

test('lists the models that its calls take, and what each can', async (t) => {
  const { url } = await mixedServer(t);
  for (const root of ['v1', 'openai/v1']) {
    const client = new OpenAI({ baseURL: `${url}/${root}`, apiKey: 'none', maxRetries: 0 });
    /** @type {any[]} */
    const models = [];
    for await (const model of client.models.list()) models.push(model);
    assert.deepEqual(
      models.map(({ id, object, capabilities }) => [id, object, capabilities]),
      [
        ['letters', 'model', ['completions', 'chat.completions']],
        ['plain', 'model', ['completions']],
        ['words', 'model', ['embeddings']],
      ],
    );
    assert.deepEqual(await client.models.retrieve('words'), models[2]);
    await assert.rejects(client.models.retrieve('digits'), {
      ...{ status: 404, code: 'model_not_found', param: 'model' },
      message: '404 model "digits" has no calls in OpenAI\'s API; call /v2/models/digits/infer',
    });
    await assert.rejects(client.models.retrieve('none'), { status: 404, code: 'model_not_found' });
    await assert.rejects(client.embeddings.create({ model: 'digits', input: 'a' }), { message: /call \/v2\/models\/digits\/infer$/ });
    await assert.rejects(client.embeddings.create({ model: 'plain', input: 'a' }), { message: /it is a model for generation; call \/v1\/completions$/ });
    await assert.rejects(client.completions.create({ model: 'words', prompt: 'a' }), { message: /it is a model for embeddings; call \/v1\/embeddings$/ });
    assert.equal((await client.embeddings.create({ model: 'words', input: 'a dog' })).data.length, 1);
    assert.equal((await client.chat.completions.create({ model: 'letters', messages: [{ role: 'user', content: 'a' }] })).choices.length, 1);
    assert.equal((await getJson(`${url}/${root}/nothing`)).json.error.type, 'invalid_request_error');
  }
});

test('names of models may have slashes and any characters', async (t) => {
  for (const name of ['org/words', 'a/b/c', 'ä b?#%+1']) {
    const repository = `${repositoryOf(t, wordsFiles('words'))}/words`;
    const { urls } = await startServer(t, { models: repository, name });
    const client = new OpenAI({ baseURL: `${urls.http}/v1`, apiKey: 'none', maxRetries: 0 });
    assert.equal((await client.models.retrieve(name)).id, name);
    assert.equal((await client.embeddings.create({ model: name, input: 'a dog' })).model, name);
    const plain = name.split('/').map(encodeURIComponent).join('/');
    for (const root of ['v1', 'openai/v1']) assert.equal((await getJson(`${urls.http}/${root}/models/${plain}`)).json.id, name);
    assert.equal((await getJson(`${urls.http}/v1/models/${plain}/x`)).status, 404);
  }
});

test('embeddings: texts, tokens, formats, widths', async (t) => {
  const { url } = await mixedServer(t);
  const embed = (/** @type {object} */ body) => postJson(`${url}/v1/embeddings`, { model: 'words', input: 'a dog', ...body });
  const vectorsOf = async (/** @type {object} */ body) => {
    const { status, json } = await embed(body);
    assert.equal(status, 200, JSON.stringify(json));
    return json.data.map((/** @type {any} */ { embedding }) => embedding);
  };
  const [whole] = await vectorsOf({});
  assert.deepEqual(await vectorsOf({ encoding_format: null, dimensions: null, user: null, other: null }), [whole]);
  assert.deepEqual(await vectorsOf({ input: ['a dog'], user: 'me', encoding_format: 'float' }), [whole]);
  const [packed] = await vectorsOf({ encoding_format: 'base64' });
  const bytes = Buffer.from(packed, 'base64');
  assert.deepEqual(
    Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(4 * i)),
    whole,
  );
  const width = whole.length;
  for (let dimensions = 1; dimensions <= width; dimensions++) {
    const [short] = await vectorsOf({ dimensions });
    const length = Math.hypot(...whole.slice(0, dimensions));
    assert.equal(short.length, dimensions);
    short.forEach((/** @type {number} */ value, /** @type {number} */ i) => assert.ok(Math.abs(value - whole[i] / length) < 1e-6));
  }
  const [first, second] = await vectorsOf({ input: [[1, 2], [2]] });
  assert.deepEqual(await vectorsOf({ input: [1, 2] }), [first]);
  assert.deepEqual(await vectorsOf({ input: [2] }), [second]);
  /** @type {[body: object, param: string, code: string][]} */
  const wrong = [
    [{ dimensions: width + 1 }, 'dimensions', 'invalid_value'],
    [{ dimensions: 0 }, 'dimensions', 'invalid_value'],
    [{ input: '' }, 'input', 'invalid_value'],
    [{ input: [] }, 'input', 'invalid_value'],
    [{ input: null }, 'input', 'missing_required_parameter'],
    [{ input: Array(2049).fill('a') }, 'input', 'invalid_value'],
    [{ input: Array(100).fill('dog').join(' ') }, 'input', 'context_length_exceeded'],
    [{ truncate: true }, 'truncate', 'unsupported_parameter'],
    [{ truncate_prompt_tokens: 5 }, 'truncate_prompt_tokens', 'unsupported_parameter'],
    [{ model: null }, 'model', 'missing_required_parameter'],
  ];
  for (const [body, param, code] of wrong) {
    const { status, json } = await embed(body);
    assert.deepEqual([status, json.error.param, json.error.code], [400, param, code], JSON.stringify(json));
  }
});

test('the OpenAPI document is valid, and has all routes', async (t) => {
  const { url } = await mixedServer(t, { apiKey: 'k' });
  assert.equal((await getJson(`${url}/openapi.json`)).status, 401);
  const document = await (await fetch(`${url}/openapi.json`, { headers: { authorization: 'Bearer k' } })).json();
  assert.equal(document.openapi, '3.1.0');
  assert.deepEqual(await new Validator().validate(document), { valid: true });
  const operations = Object.entries(document.paths).flatMap(([route, methods]) =>
    Object.entries(/** @type {Record<string, any>} */ (methods)).map(([method, operation]) => ({ route: `${method} ${route}`, operation })),
  );
  const undescribed = operations.filter(({ operation }) => operation.summary === undefined).map(({ route }) => route);
  assert.deepEqual(undescribed, [], 'each route is described in lib/http/openapi.js');
  const routes = operations.map(({ route }) => route);
  for (const route of [
    ...['get /v1/models', 'get /v1/models/{model}', 'post /v1/embeddings', 'post /v1/completions', 'post /v1/chat/completions'],
    ...['get /v2', 'get /v2/health/ready', 'post /v2/models/{model}/infer', 'post /v2/models/{model}/versions/{version}/infer', 'post /v2/repository/index'],
  ]) {
    assert.ok(routes.includes(route), route);
  }
  const { properties } = document.paths['/v1/chat/completions'].post.requestBody.content['application/json'].schema;
  assert.deepEqual(properties.temperature.anyOf[0].maximum, 2);
  assert.deepEqual(properties.temperature.anyOf[1], { type: 'null' });
});

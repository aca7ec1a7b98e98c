// OpenAI's API: the list of models, and embeddings.

import { invalid } from '../errors.js';
import { normalize } from '../models/embedder.js';
import { decodeEmbeddings } from '../protocol/openai.js';
import { bodyOf, callOf, callOptions } from './calls.js';

const OWNER = 'webnn-node';

/** Whether a call is one of OpenAI's API. @param {string} url */
export const isOpenAi = (url) => url.startsWith('/v1/');

/**
 * A model for a task.
 * @template {'embeddings' | 'generation'} Kind
 * @param {import('../registry/registry.js').Registry} registry
 * @param {string} name
 * @param {Kind} kind
 * @returns {Extract<import('../models/load.js').Model, { kind: Kind }>}
 */
export function modelFor(registry, name, kind) {
  const { model } = registry.get(name);
  if (model.kind === kind) return /** @type {any} */ (model);
  throw invalid(`model ${JSON.stringify(name)} does not do ${kind}: it is a model for ${model.kind}`, { param: 'model' });
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../serve.js').Context} context
 */
export function addOpenAiRoutes(app, { registry, json }) {
  const created = Math.floor(Date.now() / 1000);
  const describe = (/** @type {{ name: string }} */ { name }) => ({ id: name, object: 'model', created, owned_by: OWNER });
  app.get('/v1/models', async () => ({ object: 'list', data: registry.ready.map(describe) }));
  app.get('/v1/models/:model', async (request) => describe(registry.get(/** @type {any} */ (request.params).model)));

  app.post('/v1/embeddings', async (request, reply) => {
    const body = await json.read('embeddings', bodyOf(request), callOf(request).signal);
    const name = /** @type {string} */ (body.model);
    const model = modelFor(registry, name, 'embeddings');
    const { inputs, format, dimensions } = decodeEmbeddings(body, model.width);
    const { signal } = callOf(request);
    const { vectors, tokens } = await model.embed(inputs, callOptions(request, reply));
    const shortened = dimensions === model.width ? vectors : vectors.map((vector) => normalize(vector.slice(0, dimensions)));
    const elements = format === 'float' ? vectors.length * dimensions : 0;
    const text = await json.write('embeddings', [name, { vectors: shortened, tokens }, format], elements, signal);
    return reply.type('application/json').send(text);
  });
}

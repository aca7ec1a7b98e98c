// OpenAI's API: the list of models, and embeddings.

import { invalid } from '../errors.js';
import { decodeBody, decodeEmbeddings, encodeEmbeddings } from '../protocol/openai.js';
import { bodyOf, callOptions } from './calls.js';

const OWNER = 'webnn-node';

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
export function addOpenAiRoutes(app, { registry }) {
  const created = Math.floor(Date.now() / 1000);
  const describe = (/** @type {{ name: string }} */ { name }) => ({ id: name, object: 'model', created, owned_by: OWNER });
  app.get('/v1/models', async () => ({ object: 'list', data: registry.ready.map(describe) }));
  app.get('/v1/models/:model', async (request) => describe(registry.get(/** @type {any} */ (request.params).model)));

  app.post('/v1/embeddings', async (request, reply) => {
    const body = decodeBody(bodyOf(request));
    const name = /** @type {string} */ (body.model);
    const model = modelFor(registry, name, 'embeddings');
    const { inputs, format, dimensions } = decodeEmbeddings(body, model.width);
    const { vectors, tokens } = await model.embed(inputs, callOptions(request, reply));
    return encodeEmbeddings(name, { vectors: vectors.map((vector) => model.shortened(vector, dimensions)), tokens }, format);
  });
}

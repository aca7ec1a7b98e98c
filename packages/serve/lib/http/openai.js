// OpenAI's API: the list of models, and embeddings.

import { invalid, ServeError } from '../errors.js';
import { decodeEmbeddings } from '../protocol/openai.js';
import { bodyOf, callOf, callOptions } from './calls.js';

const OWNER = 'webnn-node';

/** Where the API is: OpenAI's own place, and KServe's. */
export const ROOTS = ['/v1', '/openai/v1'];

/** @typedef {import('../models/load.js').Model} Model */

/** Whether a call is one of OpenAI's API. @param {string} url */
export const isOpenAi = (url) => ROOTS.some((root) => url.startsWith(`${root}/`));

/**
 * What a model does over OpenAI's API: the calls, by the names that OpenAI's clients have for them.
 * @param {Model} model
 */
function capabilitiesOf(model) {
  if (model.kind === 'generation') return model.hasTemplate ? ['completions', 'chat.completions'] : ['completions'];
  return model.kind === 'embeddings' ? ['embeddings'] : [];
}

/**
 * The calls for a model.
 * @param {string} name
 * @param {Model} model
 */
function routesOf(name, model) {
  const calls = capabilitiesOf(model).map((capability) => `/v1/${capability.replace('.', '/')}`);
  return calls.length === 0 ? `/v2/models/${encodeURIComponent(name)}/infer` : calls.join(' or ');
}

/**
 * A model for a task.
 * @template {'embeddings' | 'generation'} Kind
 * @param {import('../registry/registry.js').Registry} registry
 * @param {string} name
 * @param {Kind} kind
 * @returns {Extract<Model, { kind: Kind }>}
 */
export function modelFor(registry, name, kind) {
  const { model } = registry.get(name);
  if (model.kind === kind) return /** @type {any} */ (model);
  throw invalid(`model ${JSON.stringify(name)} does not do ${kind}, it is a model for ${model.kind}; call ${routesOf(name, model)}`, { param: 'model' });
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../serve.js').Context} context
 */
export function addOpenAiRoutes(app, { registry, json }) {
  const created = Math.floor(Date.now() / 1000);
  const describe = (/** @type {string} */ name, /** @type {Model | null} */ model) => {
    const capabilities = model === null ? [] : capabilitiesOf(model);
    return { id: name, object: 'model', created, owned_by: OWNER, capabilities };
  };
  const describeOne = async (/** @type {import('fastify').FastifyRequest} */ { params }) => {
    const { '*': rest, model: name = rest } = /** @type {Record<string, string>} */ (params);
    const { model } = registry.get(name);
    const described = describe(name, model);
    if (described.capabilities.length > 0) return described;
    const message = `model ${JSON.stringify(name)} has no calls in OpenAI's API; call ${routesOf(name, model)}`;
    throw new ServeError('notFound', message, { param: 'model', code: 'model_not_found' });
  };

  for (const root of ROOTS) {
    app.get(`${root}/models`, async () => {
      const all = registry.ready.map(({ name, model }) => describe(name, model));
      return { object: 'list', data: all.filter(({ capabilities }) => capabilities.length > 0) };
    });
    app.get(`${root}/models/:model`, describeOne);
    // Names such as `org/name`, where a client does not encode them.
    app.get(`${root}/models/*`, describeOne);

    app.post(`${root}/embeddings`, async (request, reply) => {
      const { signal } = callOf(request);
      const body = await json.read('embeddings', bodyOf(request), signal);
      const model = modelFor(registry, body.model, 'embeddings');
      const { inputs, format, dimensions } = decodeEmbeddings(body, model.width);
      const { vectors, tokens } = await model.embed(inputs, callOptions(request));
      const shortened = vectors.map((vector) => model.shortened(vector, dimensions));
      const elements = format === 'float' ? vectors.length * dimensions : 0;
      const text = await json.write('embeddings', [body.model, { vectors: shortened, tokens }, format], elements, signal);
      return reply.type('application/json').send(text);
    });
  }
}

// The OpenAPI document: what can be called, at /openapi.json. It is about requests that the protocols check themselves, so the
// schemas are not Fastify's to check.

import swagger from '@fastify/swagger';
import * as openAi from '../protocol/schemas-openai.js';
import * as v2 from '../protocol/schemas-v2.js';

/** @typedef {import('../protocol/checker.js').Schema} Schema */

/**
 * A schema with null for all members that may be left out: that is the same.
 * @param {Schema} schema
 * @returns {Schema}
 */
function withNulls(schema) {
  const { properties, required = [], items, anyOf } = schema;
  const optional = (/** @type {string} */ name, /** @type {Schema} */ member) => (required.includes(name) ? member : { anyOf: [member, { type: 'null' }] });
  return {
    ...schema,
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, member]) => [name, optional(name, withNulls(/** @type {Schema} */ (member)))])),
    }),
    ...(items && { items: withNulls(items) }),
    ...(anyOf && { anyOf: anyOf.map(withNulls) }),
  };
}

/**
 * @param {Schema} error
 * @param {string} summary
 * @param {Schema | null} answer null for an empty object
 * @param {{ body?: Schema, stream?: boolean }} [options]
 */
function operation(error, summary, answer, { body, stream = false } = {}) {
  const content = {
    'application/json': { schema: answer ?? { type: 'object' } },
    ...(stream && { 'text/event-stream': { schema: { type: 'string', description: 'Chunks, where the request has stream: true' } } }),
  };
  const response = {
    200: { description: 'The response', content },
    default: { description: 'An error', content: { 'application/json': { schema: error } } },
  };
  return { summary, response, ...(body && { body }) };
}

const ofOpenAi = operation.bind(null, openAi.OPENAI_ERROR);
const ofV2 = operation.bind(null, v2.V2_ERROR);

const MODEL = '/v2/models/:model';
const VERSION = `${MODEL}/versions/:version`;

/** What each route does. @type {Record<string, Schema>} */
const OPERATIONS = {
  'GET /v1/models': ofOpenAi('Lists the models of these calls', openAi.MODELS_RESPONSE),
  'GET /v1/models/:model': ofOpenAi('Describes a model', openAi.MODEL_RESPONSE),
  'POST /v1/embeddings': ofOpenAi('Makes vectors of texts', openAi.EMBEDDINGS_RESPONSE, { body: withNulls(openAi.EMBEDDINGS) }),
  'POST /v1/completions': ofOpenAi('Goes on with texts', openAi.COMPLETION_RESPONSE, { body: withNulls(openAi.COMPLETION), stream: true }),
  'POST /v1/chat/completions': ofOpenAi('Answers a conversation', openAi.CHAT_RESPONSE, { body: withNulls(openAi.CHAT), stream: true }),
  'GET /v2': ofV2('Describes the server', v2.SERVER_METADATA),
  'GET /v2/health/live': { ...ofV2('Says that the server lives', v2.LIVE), security: [] },
  'GET /v2/health/ready': { ...ofV2('Says whether all models are loaded: 200, or 503', v2.READY), security: [] },
  'POST /v2/repository/index': ofV2('Lists models and their states', v2.INDEX_RESPONSE, { body: v2.INDEX_REQUEST }),
  'POST /v2/repository/models/:model/load': ofV2('Loads a model, or loads it again', null),
  'POST /v2/repository/models/:model/unload': ofV2('Takes a model out of service', null),
  ...Object.fromEntries(
    [MODEL, VERSION].flatMap((path) => [
      [`GET ${path}`, ofV2('Describes a model', v2.MODEL_METADATA)],
      [`GET ${path}/ready`, ofV2('Says whether a model can be used', v2.READY)],
      [`POST ${path}/infer`, ofV2('Computes the outputs of a model', v2.INFER_RESPONSE, { body: v2.INFER_REQUEST })],
    ]),
  ),
  'GET /openapi.json': {
    summary: 'This document',
    response: { 200: { description: 'The document', content: { 'application/json': { schema: { type: 'object' } } } } },
  },
};

/** Other ways to the same: KServe's paths, and names of models with slashes. */
const OTHERS = /^\/openai\/v1\/|\*$/;

/**
 * Describes the routes that are added to this app in a plugin, also those of its users.
 * @param {import('fastify').FastifyInstance} app
 * @param {{ name: string, version: string }} about
 */
export function addOpenApi(app, { name, version }) {
  app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: name, version, description: "OpenAI's API, which is also below /openai/v1, and the Open Inference Protocol" },
      components: { securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'Where the server has a key' } } },
      security: [{ key: [] }, {}],
    },
    transform({ schema, url, route }) {
      const known = OPERATIONS[`${route.method} ${url}`] ?? schema;
      return { url, schema: OTHERS.test(url) ? { ...known, hide: true } : known };
    },
  });
  app.register(async (routes) => {
    routes.get('/openapi.json', async () => routes.swagger());
  });
}

// The Open Inference Protocol over REST, and Triton's extensions of it that clients call: raw bytes, loading and unloading.

import { ServeError } from '../errors.js';
import { HEAD_LENGTH, joinAnswer, parseJson, splitResult } from '../protocol/v2-json.js';
import { bodyOf, callOf, callOptions } from './calls.js';
import { addHealthRoutes } from './health.js';

/** What this server says about itself. */
export const EXTENSIONS = ['binary_tensor_data', 'model_repository'];

/** Bytes of requests that concern the repository. */
const MAX_SHORT_BYTES = 2 ** 16;

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../serve.js').Context} context
 * @param {import('./body.js').BodyMemory} memory
 */
export function addV2Routes(app, { registry, about, allowsControl, limits, json }, memory) {
  const found = (/** @type {any} */ { params: { model, version } }) => registry.get(model, version);
  /** Each path with and without a version. @type {(path: string) => string[]} */
  const paths = (path) => [`/v2/models/:model${path}`, `/v2/models/:model/versions/:version${path}`];
  const get = (/** @type {string} */ path, /** @type {(request: any) => unknown} */ answer) => app.get(path, async (request) => answer(request));

  get('/v2', () => ({ ...about, extensions: EXTENSIONS }));
  addHealthRoutes(app, () => registry.isReady);

  for (const path of paths('')) {
    get(path, (request) => {
      const { name, version, model } = found(request);
      const versions = registry.versions.filter((entry) => entry.name === name && entry.state === 'ready').map((entry) => entry.version);
      return { name, versions: request.params.version === undefined ? versions : [version], ...model.metadata };
    });
  }
  for (const path of paths('/ready')) {
    app.get(path, async (request, reply) => {
      const { model, version } = /** @type {any} */ (request.params);
      const ready = registry.isModelReady(model, version);
      if (!ready) reply.code(503).header('Retry-After', 1);
      return { name: model, ready };
    });
  }
  const infer = {
    config: {
      /** JSON is shorter than raw bytes may be. */
      bodyLimits: (/** @type {import('fastify').FastifyRequest} */ { headers }) => ({
        bytes: headers[HEAD_LENGTH] === undefined ? limits.maxJsonBytes : limits.maxBodyBytes,
        headBytes: limits.maxJsonBytes,
      }),
    },
    // Nothing is read for a model that is not there, or has no room.
    onRequest(/** @type {import('fastify').FastifyRequest} */ request, /** @type {unknown} */ _, /** @type {() => void} */ done) {
      found(request).model.admit();
      done();
    },
  };
  for (const path of paths('/infer')) {
    app.post(path, infer, async (request, reply) => {
      const body = bodyOf(request);
      const { signal } = callOf(request);
      const decoded = await json.read('v2', body, signal, /** @type {string | undefined} */ (request.headers[HEAD_LENGTH]));
      // Other versions may have been loaded while the body was read.
      const served = found(request);
      // A request that fails or is canceled may still be read.
      const result = await served.model.infer(decoded.request, callOptions(request, decoded.timeoutMs));
      memory.release(body);
      const { outputs, raw, elements } = splitResult(decoded, result);
      const model = { name: served.name, version: served.version };
      const answer = joinAnswer(await json.write('v2', [model, decoded.id, outputs], elements, signal), raw);
      if (answer.headLength === null) return reply.type('application/json').send(answer.body);
      return reply.header('Inference-Header-Content-Length', answer.headLength).type('application/octet-stream').send(answer.body);
    });
  }

  // They say little, and are read at once.
  const short = { bodyLimits: () => ({ bytes: Math.min(MAX_SHORT_BYTES, limits.maxTextBytes), headBytes: Infinity }) };
  app.post('/v2/repository/index', { config: short }, async (request) => {
    const body = bodyOf(request);
    const { ready = false } = body.length === 0 ? {} : (parseJson(body.toString()) ?? {});
    return registry.index(ready === true);
  });
  for (const action of /** @type {const} */ (['load', 'unload'])) {
    const allowed = async () => {
      if (!allowsControl) throw new ServeError('notAllowed', `models are not ${action}ed through the network; start the server with --control`);
    };
    app.post(`/v2/repository/models/:model/${action}`, { config: short, onRequest: allowed }, async (request) => {
      await registry[action](/** @type {any} */ (request.params).model);
      return {};
    });
  }
}

// The Open Inference Protocol over REST, and Triton's extensions of it that clients call: raw bytes, loading and unloading.

import { ServeError } from '../errors.js';
import { decodeRequest, encodeAnswer, HEAD_LENGTH, parseJson } from '../protocol/v2-json.js';
import { bodyOf, callOptions } from './calls.js';

/** What this server says about itself. */
export const EXTENSIONS = ['binary_tensor_data', 'model_repository'];

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../serve.js').Context} context
 * @param {import('./body.js').BodyMemory} memory
 */
export function addV2Routes(app, { registry, about, allowsControl }, memory) {
  const found = (/** @type {any} */ { params: { model, version } }) => registry.get(model, version);
  /** Each path with and without a version. @type {(path: string) => string[]} */
  const paths = (path) => [`/v2/models/:model${path}`, `/v2/models/:model/versions/:version${path}`];
  const get = (/** @type {string} */ path, /** @type {(request: any) => unknown} */ answer) => app.get(path, async (request) => answer(request));

  get('/v2', () => ({ ...about, extensions: EXTENSIONS }));
  get('/v2/health/live', () => ({ live: true }));
  app.get('/v2/health/ready', async (_, reply) => {
    reply.code(registry.isReady ? 200 : 503);
    return { ready: registry.isReady, live: true };
  });

  for (const path of paths('')) {
    get(path, (request) => {
      const { name, version, model } = found(request);
      const versions = registry.versions.filter((entry) => entry.name === name && entry.state === 'ready').map((entry) => entry.version);
      return { name, versions: request.params.version === undefined ? versions : [version], ...model.metadata };
    });
  }
  for (const path of paths('/ready')) {
    app.get(path, async (request, reply) => {
      const { name } = found(request);
      reply.code(registry.isReady ? 200 : 503);
      return { name, ready: registry.isReady };
    });
  }
  for (const path of paths('/infer')) {
    app.post(path, async (request, reply) => {
      const served = found(request);
      const body = bodyOf(request);
      const decoded = decodeRequest(body, /** @type {string | undefined} */ (request.headers[HEAD_LENGTH]));
      // A request that fails or is canceled may still be read.
      const result = await served.model.infer(decoded.request, callOptions(request, reply, decoded.timeoutMs));
      memory.release(body);
      const answer = encodeAnswer(served, decoded, result);
      if (answer.headLength === null) return reply.type('application/json').send(answer.body);
      return reply.header('Inference-Header-Content-Length', answer.headLength).type('application/octet-stream').send(answer.body);
    });
  }

  app.post('/v2/repository/index', async (request) => {
    const body = bodyOf(request);
    const { ready = false } = body.length === 0 ? {} : (parseJson(body.toString()) ?? {});
    return registry.index(ready === true);
  });
  for (const action of /** @type {const} */ (['load', 'unload'])) {
    app.post(`/v2/repository/models/:model/${action}`, async (request) => {
      if (!allowsControl) throw new ServeError('notAllowed', `models are not ${action}ed through the network; start the server with --control`);
      await registry[action](/** @type {any} */ (request.params).model);
      return {};
    });
  }
}

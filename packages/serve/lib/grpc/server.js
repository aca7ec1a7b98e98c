// The server for gRPC.

import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { ServeError, toServeError } from '../errors.js';
import { EXTENSIONS } from '../http/v2.js';
import { decodeInfer, encodeInfer } from '../protocol/v2-grpc.js';

const PROTO = fileURLToPath(new URL('inference.proto', import.meta.url));

/** Empty lists and texts are there, and 64-bit integers are texts. */
const FORM = { keepCase: true, longs: String, defaults: true, arrays: true, objects: true };

/** @type {any} */
const { inference } = grpc.loadPackageDefinition(loadSync(PROTO, FORM));

/** Names of the codes of gRPC. */
const CODES = /** @type {Record<string, number>} */ (/** @type {unknown} */ (grpc.status));

/**
 * What a call says beside its message.
 * @param {grpc.ServerUnaryCall<any, any>} call
 * @param {number} [timeoutMs] that the message names
 */
function callOptions(call, timeoutMs = Infinity) {
  const controller = new AbortController();
  call.on('cancelled', () => controller.abort());
  const until = call.getDeadline();
  // Clients name a time of day; the queue has a clock that never jumps.
  const ms = Math.min(Number(until) - Date.now(), timeoutMs);
  return { signal: controller.signal, deadline: Number.isFinite(ms) ? performance.now() + ms : undefined };
}

/**
 * The calls of the service.
 * @param {import('../serve.js').Context} context
 * @returns {Record<string, (message: any, call: grpc.ServerUnaryCall<any, any>) => unknown>}
 */
function callsOf({ registry, about, allowsControl }) {
  /** The name of a model to load or unload, see the message. */
  const named = (/** @type {any} */ { repository_or_model_name: first, model_name: name }) => {
    if (!allowsControl) throw new ServeError('notAllowed', 'models are not loaded through the network; start the server with --control');
    return name === '' ? first : name;
  };
  return {
    ServerLive: () => ({ live: true }),
    ServerReady: () => ({ ready: registry.isReady }),
    ServerMetadata: () => ({ ...about, extensions: EXTENSIONS }),
    ModelReady({ name, version }) {
      registry.get(name, version);
      return { ready: registry.isReady };
    },
    ModelMetadata(message) {
      const { name, version, model } = registry.get(message.name, message.version);
      return { name, versions: [version], ...model.metadata };
    },
    async ModelInfer(message, call) {
      const served = registry.get(message.model_name, message.model_version);
      const { request, timeoutMs } = decodeInfer(message);
      return encodeInfer(served, message.id, await served.model.infer(request, callOptions(call, timeoutMs)));
    },
    RepositoryIndex: ({ ready }) => ({ models: registry.index(ready) }),
    async RepositoryModelLoad(message) {
      const name = named(message);
      await registry.load(name);
      return { model_name: name, isLoaded: true };
    },
    async RepositoryModelUnload(message) {
      const name = named(message);
      await registry.unload(name);
      return { model_name: name, isUnloaded: true };
    },
  };
}

/**
 * Answers a call with a message or a status.
 * @param {ReturnType<typeof callsOf>[string]} answer
 * @param {import('../serve.js').Context} context
 * @returns {grpc.handleUnaryCall<any, any>}
 */
const handler =
  (answer, { log, access }) =>
  async (call, callback) => {
    try {
      const [authorization] = call.metadata.get('authorization');
      access.checkKey(authorization?.toString());
      callback(null, await answer(call.request, call));
    } catch (error) {
      const { kind, grpc: code, message, cause } = toServeError(error);
      if (kind === 'internal') log.error({ err: cause ?? error }, 'call failed');
      callback({ code: CODES[code], details: message });
    }
  };

/**
 * Starts the service.
 * @param {import('../serve.js').Context} context
 * @param {{ host: string, port: number }} address
 * @returns {Promise<{ name: string, url: string, close: () => Promise<void> }>}
 */
export async function listenGrpc(context, { host, port }) {
  const server = new grpc.Server({
    'grpc.max_receive_message_length': context.limits.maxBodyBytes,
    'grpc.max_send_message_length': -1,
  });
  const calls = Object.entries(callsOf(context)).map(([name, answer]) => [name, handler(answer, context)]);
  server.addService(inference.GRPCInferenceService.service, Object.fromEntries(calls));
  const name = host.includes(':') ? `[${host}]` : host;
  const bound = await new Promise((resolve, reject) => {
    server.bindAsync(`${name}:${port}`, grpc.ServerCredentials.createInsecure(), (error, number) => (error === null ? resolve(number) : reject(error)));
  });
  const close = () =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => server.forceShutdown(), context.limits.drainMs);
      server.tryShutdown((error) => {
        clearTimeout(timer);
        if (error === undefined) resolve(undefined);
        else reject(error);
      });
    });
  return { name: 'grpc', url: `grpc://${name}:${bound}`, close: /** @type {() => Promise<void>} */ (close) };
}

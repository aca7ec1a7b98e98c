// `serve()`: starts the server.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import v8 from 'node:v8';
import pino from 'pino';
import { Access, isLocal } from './access.js';
import { ByteBudget } from './byte-budget.js';
import { listenGrpc } from './grpc/server.js';
import { createMetricsHttp } from './http/metrics.js';
import { createHttp } from './http/server.js';
import { JsonThread } from './json/thread.js';
import { listening } from './listening.js';
import { Metrics } from './metrics/metrics.js';
import { checkOptions } from './options.js';
import { Registry } from './registry/registry.js';

/** Of this package. @type {{ version: string }} */
export const { version: VERSION } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));

/** The model that is in the package: served where no folder is given. */
const BUILT_IN = new URL('../models/embeddings/', import.meta.url);

/**
 * Limits of requests.
 * @typedef {object} RequestLimits
 * @property {number} maxBodyBytes of a request with raw tensors, also after decompression
 * @property {number} maxJsonBytes of a request with tensors in JSON, and of the JSON before raw tensors
 * @property {number} maxTextBytes of a request to OpenAI's API, and of all others
 * @property {number} maxBytesInFlight of all requests together, from their first byte until they are answered
 * @property {number} maxUnreadBytes of answers that wait until their callers read them
 * @property {number} maxConnections of a port; more are refused
 * @property {number} maxStreams calls at the same time on a connection of gRPC
 * @property {number} maxEventLoopDelayMs above which requests are refused, but for health and metrics; 0 for none
 * @property {number} maxHeapBytes of JavaScript, likewise
 * @property {number} requestTimeoutMs until a request must have arrived
 * @property {number} idleTimeoutMs of a connection on which nothing moves
 * @property {number} heartbeatMs after which a stream of events has a comment if it has nothing else
 * @property {number} startMs until one of several processes must be ready, see `--processes`
 * @property {number} leaveMs that the end of the server goes on taking requests while it is not ready, for proxies that ask for that
 * @property {number} drainMs that the end of the server waits for requests which have begun; below the 30 s that Kubernetes gives
 */

/** @type {RequestLimits} */
export const LIMITS = {
  maxBodyBytes: 64 * 2 ** 20,
  maxJsonBytes: 16 * 2 ** 20,
  maxTextBytes: 4 * 2 ** 20,
  maxBytesInFlight: 256 * 2 ** 20,
  maxUnreadBytes: 256 * 2 ** 20,
  maxConnections: 1024,
  maxStreams: 100,
  maxEventLoopDelayMs: 1000,
  maxHeapBytes: Math.floor(0.9 * v8.getHeapStatistics().heap_size_limit),
  requestTimeoutMs: 60_000,
  idleTimeoutMs: 120_000,
  heartbeatMs: 15_000,
  startMs: 600_000,
  leaveMs: 0,
  drainMs: 25_000,
};

/**
 * The limits of a server: no body may be longer than the longest one.
 * @param {Partial<RequestLimits>} given
 * @returns {RequestLimits}
 */
function limitsOf(given) {
  const all = { ...LIMITS, ...given };
  return { ...all, maxJsonBytes: Math.min(all.maxJsonBytes, all.maxBodyBytes), maxTextBytes: Math.min(all.maxTextBytes, all.maxBodyBytes) };
}

/**
 * @typedef {object} ServeOptions
 * @property {string} [models] a folder of models, or a model: its folder or its .onnx file; by default the models in the package
 * @property {string} [name] of the model where the folder is itself a model; by default that of the folder
 * @property {string} [host] address to listen at; only this machine by default
 * @property {number | false} [http] port; 0 takes a free one
 * @property {number | false} [grpc] port; none by default
 * @property {number | 'cluster'} [metrics] port of the metrics; by default they are at /metrics of the port for HTTP. In a process
 *   of `node:cluster`, `'cluster'` leaves them to the first process
 * @property {boolean} [control] whether models may be loaded and unloaded through the network; by default only where nobody but this machine calls: at a
 *   local address, without `allowedHosts`, `corsOrigins` and `trustProxy`
 * @property {string} [apiKey] that callers must have, as `Authorization: Bearer KEY`; health and metrics need none
 * @property {string[]} [apiKeys] further keys
 * @property {import('./access.js').Authenticate} [authenticate] decides about each call before its body is read, after the keys; of
 *   both protocols
 * @property {string[]} [allowedHosts] names under which the server may be called, `.example.com` for all below it. By default a server
 *   that only this machine reaches has its local names, and any other server all names
 * @property {string[] | '*'} [corsOrigins] origins whose pages may call, such as `https://app.example.com`
 * @property {boolean} [trustProxy] whether `X-Forwarded-For` and `X-Forwarded-Host` are those of a proxy of yours
 * @property {(app: import('fastify').FastifyInstance) => unknown} [setup] adds routes, hooks and plugins before the server listens
 * @property {Partial<import('./registry/config.js').ModelConfig>} [defaults] of all models
 * @property {Partial<RequestLimits>} [limits]
 * @property {import('pino').BaseLogger | false} [log] by default JSON lines on standard output
 */

/**
 * What the protocols share.
 * @typedef {object} Context
 * @property {Registry} registry
 * @property {Metrics} metrics
 * @property {any} log
 * @property {RequestLimits} limits
 * @property {ByteBudget} bodies of requests that arrive, wait and are computed
 * @property {ByteBudget} unread answers that wait until their callers read them
 * @property {{ name: string, version: string }} about
 * @property {boolean} allowsControl
 * @property {Access} access
 * @property {JsonThread} json
 */

/** What listens at one port. @typedef {{ name: string, url: string, close: () => Promise<void> }} Part */

/** A server that runs. */
export class Server {
  /** The server for HTTP. @type {import('fastify').FastifyInstance | undefined} */
  app;
  #context;
  #parts;
  /** @type {Promise<void> | undefined} */
  #closed;

  /**
   * @param {Context} context
   * @param {Part[]} parts
   */
  constructor(context, parts) {
    this.#context = context;
    this.#parts = parts;
  }

  /** Addresses by protocol: `http`, `grpc`, `metrics`. @returns {Record<string, string>} */
  get urls() {
    return Object.fromEntries(this.#parts.map(({ name, url }) => [name, url]));
  }

  get registry() {
    return this.#context.registry;
  }

  /**
   * Ends: not ready any more, what has begun is finished and answered, then all models are freed. A function of its own, so that
   * `const { close } = await serve()` works.
   * @returns {Promise<void>}
   */
  close = () => {
    this.#closed ??= this.#close();
    return this.#closed;
  };

  async #close() {
    const { registry, limits } = this.#context;
    // Without any part, nobody can call.
    if (limits.leaveMs > 0 && this.#parts.length > 0) {
      registry.beginLeave();
      await sleep(limits.leaveMs);
    }
    // Requests that have arrived are read, and count as begun.
    await turn();
    await turn();
    registry.beginDrain();
    await Promise.all(this.#parts.map((part) => part.close()));
    await registry.close();
    await this.#context.json.close();
  }
}

/**
 * @param {ReturnType<typeof import('./http/connections.js').createApp>} app
 * @param {{ name: string, host: string, port: number }} options
 * @returns {Promise<Part>}
 */
async function listen(app, { name, host, port }) {
  const url = await listening({ name, host, port }, () => app.listen({ host, port }));
  if (host === 'localhost') await app.connections.listenAtOthers(host);
  return { name, url, close: () => app.close() };
}

/**
 * Starts a server. It is live at once and ready when all models are loaded, which the promise waits for.
 * @param {ServeOptions} [options]
 * @returns {Promise<Server>}
 * @throws {import('./options.js').OptionError} if there is no such option, it has a wrong value, or the system refuses a port
 * @throws {import('./registry/repository.js').RepositoryError} if there is no such folder, or a setting of the models is wrong
 */
export async function serve(options = {}) {
  checkOptions(options, { limits: LIMITS });
  const {
    models = fileURLToPath(BUILT_IN),
    name,
    host = '127.0.0.1',
    http = 8080,
    grpc = false,
    metrics: metricsPort,
    allowedHosts,
    corsOrigins = [],
    trustProxy = false,
    // With another name, or pages of other origins, callers are not only those of this machine.
    control = isLocal(host) && allowedHosts === undefined && corsOrigins.length === 0 && !trustProxy,
    setup,
    defaults = {},
    limits = {},
    log = pino(),
  } = options;
  const logger = log === false ? pino({ level: 'silent' }) : log;
  const metrics = new Metrics();
  const registry = new Registry(models, { name, defaults, metrics, log: logger });
  const allLimits = limitsOf(limits);
  const bodies = new ByteBudget(allLimits.maxBytesInFlight);
  const access = new Access({ ...options, host, log: logger });
  if (access.isOpen && !isLocal(host)) {
    logger.warn({ host }, 'no key is set: everybody who reaches this address can use the models. Set WEBNN_SERVE_API_KEY, or listen at 127.0.0.1');
  }
  /** @type {Context} */
  const context = {
    registry,
    metrics,
    log: logger,
    limits: allLimits,
    bodies,
    unread: new ByteBudget(allLimits.maxUnreadBytes),
    about: { name: 'webnn-node-serve', version: VERSION },
    allowsControl: control,
    access,
    json: new JsonThread(bodies),
  };
  metrics.watch(() => registry.ready);
  metrics.watchBytes(context);
  /** @type {Part[]} */
  const parts = [];
  const server = new Server(context, parts);
  const isShared = metricsPort === 'cluster';
  try {
    registry.list();
    // A process that starts again beside others takes no connections from them before it can answer.
    if (isShared) await registry.open();
    if (http !== false) {
      const app = await createHttp(context, { corsOrigins, trustProxy, hasMetrics: metricsPort === undefined, setup });
      server.app = app;
      parts.push(await listen(app, { name: 'http', host, port: http }));
    }
    if (grpc !== false) parts.push(await listening({ name: 'gRPC', host, port: grpc }, () => listenGrpc(context, { host, port: grpc })));
    if (isShared) metrics.share();
    else if (metricsPort !== undefined) {
      const app = createMetricsHttp(metrics, { isReady: () => registry.isReady, log: logger });
      parts.push(await listen(app, { name: 'metrics', host, port: metricsPort }));
    }
    if (!isShared) await registry.open();
  } catch (error) {
    await server.close();
    throw error;
  }
  return server;
}

// `serve()`: starts the server.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import pino from 'pino';
import { accessOf, isLocal } from './access.js';
import { ByteBudget } from './byte-budget.js';
import { listenGrpc } from './grpc/server.js';
import { addMetricsRoute, createMetricsHttp } from './http/metrics.js';
import { createHttp } from './http/server.js';
import { Metrics } from './metrics/metrics.js';
import { checkConfig } from './registry/config.js';
import { Registry } from './registry/registry.js';

/** Of this package. @type {{ version: string }} */
export const { version: VERSION } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));

/** Models that are in the package: served where no folder is given. */
const BUILT_IN = new URL('../models/', import.meta.url);

/**
 * Limits of requests.
 * @typedef {object} RequestLimits
 * @property {number} maxBodyBytes of a request with raw tensors, also after decompression
 * @property {number} maxBytesInFlight of all requests together, from their first byte until they are answered
 * @property {number} maxUnreadBytes of answers that wait until their callers read them
 * @property {number} requestTimeoutMs until a request must have arrived
 * @property {number} idleTimeoutMs of a connection on which nothing moves
 * @property {number} drainMs that the end of the server waits for requests which have begun; below the 30 s that Kubernetes gives
 */

/** @type {RequestLimits} */
export const LIMITS = {
  maxBodyBytes: 64 * 2 ** 20,
  maxBytesInFlight: 256 * 2 ** 20,
  maxUnreadBytes: 256 * 2 ** 20,
  requestTimeoutMs: 60_000,
  idleTimeoutMs: 120_000,
  drainMs: 25_000,
};

/**
 * @typedef {object} ServeOptions
 * @property {string} [repository] folder of models; by default the models in the package
 * @property {string} [name] of the model where the folder is itself a model; by default that of the folder
 * @property {string} [host] address to listen at; only this machine by default
 * @property {number | false} [http] port; 0 takes a free one
 * @property {number | false} [grpc] port; none by default
 * @property {number | 'cluster'} [metrics] port of the metrics; by default they are at /metrics of the port for HTTP. In a process
 *   of `node:cluster`, `'cluster'` leaves them to the first process
 * @property {boolean} [control] whether models may be loaded and unloaded through the network; by default only from this machine
 * @property {string} [apiKey] that callers must have, as `Authorization: Bearer KEY`; health and metrics need none
 * @property {string[]} [allowedHosts]
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
 * @property {ReturnType<typeof accessOf>} access
 */

/** What listens at one port. @typedef {{ name: string, url: string, close: () => Promise<void> }} Part */

/** A server that runs. */
export class Server {
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
   * Ends: not ready any more, what has begun is finished and answered, then all models are freed.
   * @returns {Promise<void>}
   */
  close() {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close() {
    this.#context.registry.beginDrain();
    await Promise.all(this.#parts.map((part) => part.close()));
    await this.#context.registry.close();
  }
}

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {{ name: string, host: string, port: number, drainMs: number }} options
 * @returns {Promise<Part>}
 */
async function listen(app, { name, host, port, drainMs }) {
  const url = await app.listen({ host, port });
  return {
    name,
    url,
    async close() {
      const timer = setTimeout(() => app.server.closeAllConnections(), drainMs);
      await app.close();
      clearTimeout(timer);
    },
  };
}

/**
 * Starts a server. It is live at once and ready when all models are loaded, which the promise waits for.
 * @param {ServeOptions} [options]
 * @returns {Promise<Server>}
 * @throws {import('./registry/repository.js').RepositoryError} if there is no such folder, or a setting is wrong
 */
export async function serve({
  repository = fileURLToPath(BUILT_IN),
  name,
  host = '127.0.0.1',
  http = 8080,
  grpc = false,
  metrics: metricsPort,
  control = isLocal(host),
  apiKey,
  allowedHosts,
  defaults = {},
  limits = {},
  log = pino(),
} = {}) {
  checkConfig(defaults, 'defaults');
  const logger = log === false ? pino({ level: 'silent' }) : log;
  const metrics = new Metrics();
  const registry = new Registry(repository, { name, defaults, metrics, log: logger });
  const allLimits = { ...LIMITS, ...limits };
  /** @type {Context} */
  const context = {
    registry,
    metrics,
    log: logger,
    limits: allLimits,
    bodies: new ByteBudget(allLimits.maxBytesInFlight),
    unread: new ByteBudget(allLimits.maxUnreadBytes),
    about: { name: 'webnn-node-serve', version: VERSION },
    allowsControl: control,
    access: accessOf({ host, apiKey, allowedHosts }),
  };
  metrics.gauge('webnn_serve_queue_length', 'Number of requests that wait for a model', () =>
    registry.ready.map(({ name, version, model }) => ({ model: name, version, value: model?.waiting ?? 0 })),
  );
  const { drainMs } = context.limits;
  /** @type {Part[]} */
  const parts = [];
  const server = new Server(context, parts);
  try {
    if (http !== false) {
      const app = createHttp(context);
      if (metricsPort === undefined) addMetricsRoute(app, metrics);
      parts.push(await listen(app, { name: 'http', host, port: http, drainMs }));
    }
    if (grpc !== false) parts.push(await listenGrpc(context, { host, port: grpc }));
    if (metricsPort === 'cluster') metrics.share();
    else if (metricsPort !== undefined) parts.push(await listen(createMetricsHttp(metrics, logger), { name: 'metrics', host, port: metricsPort, drainMs }));
    await registry.open();
  } catch (error) {
    await server.close();
    throw error;
  }
  return server;
}

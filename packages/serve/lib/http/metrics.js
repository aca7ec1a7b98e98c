// The metrics over HTTP: beside the protocols, or at a port of their own.

import { LogController } from 'fastify';
import { createApp } from './connections.js';
import { addHealthRoutes } from './health.js';

/** Who reads metrics is done within seconds. */
const LIMITS = { requestTimeoutMs: 10_000, idleTimeoutMs: 120_000, maxConnections: 256, drainMs: 5000 };

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {Pick<import('../metrics/metrics.js').Metrics, 'contentType' | 'text'>} metrics
 */
export function addMetricsRoute(app, metrics) {
  app.get('/metrics', async (_, reply) => reply.type(metrics.contentType).send(await metrics.text()));
}

/**
 * A server for the metrics and for probes.
 * @param {Pick<import('../metrics/metrics.js').Metrics, 'contentType' | 'text'>} metrics
 * @param {object} options
 * @param {() => boolean} options.isReady
 * @param {any} options.log
 */
export function createMetricsHttp(metrics, { isReady, log }) {
  const app = createApp({ loggerInstance: log, logController: new LogController({ disableRequestLogging: true }) }, LIMITS, {
    log,
    onRefused: () => undefined,
  });
  addMetricsRoute(app, metrics);
  addHealthRoutes(app, isReady);
  return app;
}

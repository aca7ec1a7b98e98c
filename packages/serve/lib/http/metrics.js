// The metrics over HTTP: beside the protocols, or at a port of their own.

import fastify, { LogController } from 'fastify';

/**
 * @param {import('fastify').FastifyInstance} app
 * @param {Pick<import('../metrics/metrics.js').Metrics, 'contentType' | 'text'>} metrics
 */
export function addMetricsRoute(app, metrics) {
  app.get('/metrics', async (_, reply) => reply.type(metrics.contentType).send(await metrics.text()));
}

/**
 * A server for the metrics alone.
 * @param {Pick<import('../metrics/metrics.js').Metrics, 'contentType' | 'text'>} metrics
 * @param {any} log
 */
export function createMetricsHttp(metrics, log) {
  const app = fastify({ loggerInstance: log, logController: new LogController({ disableRequestLogging: true }) });
  addMetricsRoute(app, metrics);
  return app;
}

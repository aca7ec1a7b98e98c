// The server for HTTP: limits, errors, logs; the routes of the protocols are in files of their own.

import { randomUUID } from 'node:crypto';
import fastify, { LogController } from 'fastify';
import { ServeError, toServeError } from '../errors.js';
import { encodeError } from '../protocol/openai.js';
import { BodyMemory, readBody } from './body.js';
import { addOpenAiRoutes, isOpenAi } from './openai.js';
import { addGenerationRoutes } from './openai-generation.js';
import { addOpenApi } from './openapi.js';
import { addV2Routes } from './v2.js';

/** Request ids that headers and logs can have. */
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** What needs no key: probes and Prometheus have none. */
const OPEN = /^\/(v2\/health\/(live|ready)|metrics)$/;

/** Errors that Fastify or Node give before a route has the request. */
function toCallersError(/** @type {any} */ error) {
  if (error.statusCode === 413) return new ServeError('tooLarge', 'the body is too large');
  if (typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500) return new ServeError('invalid', error.message);
  return toServeError(error);
}

/**
 * Answers with an error in the form of the protocol.
 * @param {import('fastify').FastifyRequest} request
 * @param {import('fastify').FastifyReply} reply
 * @param {ServeError} error
 */
function answerError(request, reply, error) {
  const { status, message, retryAfterMs } = error;
  if (error.kind === 'internal') request.log.error({ err: error.cause ?? error }, 'request failed');
  if (status === 503) reply.header('Retry-After', Math.max(1, Math.ceil((retryAfterMs ?? 1000) / 1000)));
  const body = isOpenAi(request.url) ? encodeError(error) : { error: message };
  return reply.code(status).type('application/json').send(JSON.stringify(body));
}

/**
 * Counts an answer until it was sent: callers that do not read must not fill the memory.
 * @param {import('../byte-budget.js').ByteBudget} unread
 * @param {import('fastify').FastifyReply} reply
 * @param {number} bytes
 * @returns {boolean} whether there is room for it; errors always have it, or nobody would hear of the lack of room
 */
function countUnread(unread, { raw, statusCode }, bytes) {
  // Who has gone closes nothing any more.
  if (raw.destroyed) return true;
  if (statusCode >= 400) unread.force(bytes);
  else if (!unread.take(bytes)) return false;
  raw.once('close', () => unread.give(bytes));
  return true;
}

/**
 * @param {import('../serve.js').Context} context
 * @returns {import('fastify').FastifyInstance}
 */
export function createHttp(context) {
  const { log, limits, access } = context;
  const { maxBodyBytes, requestTimeoutMs, idleTimeoutMs } = limits;
  const app = fastify({
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    bodyLimit: maxBodyBytes,
    // A body must arrive within this time; how long the answer takes is not limited by it.
    requestTimeout: requestTimeoutMs,
    connectionTimeout: idleTimeoutMs,
    http: { headersTimeout: requestTimeoutMs, connectionsCheckingInterval: Math.min(1000, requestTimeoutMs) },
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    genReqId: ({ headers }) => {
      const given = headers['x-request-id'];
      return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
    },
    routerOptions: { maxParamLength: 512 },
    frameworkErrors: (error, request, reply) => answerError(request, reply, toCallersError(error)),
    clientErrorHandler(error, socket) {
      if (!socket.writable) return;
      const status =
        error.code === 'HPE_HEADER_OVERFLOW'
          ? '431 Request Header Fields Too Large'
          : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
            ? '408 Request Timeout'
            : '400 Bad Request';
      socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n{"error":"malformed HTTP"}\n`);
    },
  });

  const memory = new BodyMemory(maxBodyBytes);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (/** @type {import('fastify').FastifyRequest} */ { headers }, /** @type {import('node:http').IncomingMessage} */ stream) =>
    readBody(headers, stream, maxBodyBytes, memory),
  );

  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
    access.checkOrigin(request.headers);
    if (!OPEN.test(request.url)) access.checkKey(request.headers.authorization);
  });
  // While an answer is computed, nothing moves on its connection: that can take longer than a connection may be idle.
  app.addHook('preHandler', async ({ raw }) => {
    raw.socket.setTimeout(0);
  });
  app.addHook('onSend', async (request, reply, payload) => {
    request.raw.socket.setTimeout(idleTimeoutMs);
    // A connection that stays open would hold up the end of the server.
    if (context.registry.isDraining) reply.header('connection', 'close');
    const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? payload.length : 0;
    if (countUnread(context.unread, reply, bytes)) return payload;
    throw new ServeError('overloaded', 'too many answers wait to be read', { retryAfterMs: 1000 });
  });
  app.addHook('onResponse', async (request, reply) => {
    // A stream had begun before the server began to end: its connection is idle only now.
    if (context.registry.isDraining) setImmediate(() => app.server.closeIdleConnections());
    if (request.url.startsWith('/v2/health')) return;
    log.info(
      { requestId: request.id, method: request.method, url: request.url, status: reply.statusCode, ms: Math.round(reply.elapsedTime * 10) / 10 },
      'request',
    );
  });
  app.setErrorHandler((error, request, reply) => answerError(request, reply, toCallersError(error)));
  app.setNotFoundHandler((request, reply) =>
    answerError(request, reply, new ServeError('notFound', `there is no ${request.method} ${request.url.slice(0, 200)}`)),
  );

  addOpenApi(app, context.about);
  app.register(async (routes) => {
    addV2Routes(routes, context, memory);
    addOpenAiRoutes(routes, context);
    addGenerationRoutes(routes, context);
  });
  return app;
}

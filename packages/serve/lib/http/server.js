// The server for HTTP: limits, errors, logs; the routes of the protocols are in files of their own.

import { randomBytes } from 'node:crypto';
import { Socket } from 'node:net';
import cors from '@fastify/cors';
import underPressure from '@fastify/under-pressure';
import { LogController } from 'fastify';
import { ServeError, toServeError } from '../errors.js';
import { encodeError } from '../protocol/openai.js';
import { admitBody, BodyMemory, countedBody, dropBody, readBody } from './body.js';
import { Call, callOf } from './calls.js';
import { createApp } from './connections.js';
import { addMetricsRoute } from './metrics.js';
import { addOpenAiRoutes, isOpenAi } from './openai.js';
import { addGenerationRoutes } from './openai-generation.js';
import { addOpenApi } from './openapi.js';
import { addV2Routes } from './v2.js';

/** Request ids that headers and logs can have. */
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;

/** What needs no key, and is answered whatever the load: probes and Prometheus. */
const OPEN = /^\/(v2\/health\/(live|ready)|metrics)(\?|$)/;

/** Methods whose requests have bodies. */
const WITH_BODY = ['POST', 'PUT', 'PATCH', 'DELETE'];

/** Bytes of an unwanted body that are read and dropped at least. */
const STRANGERS_BYTES = 2 ** 24;

/** Headers of responses that pages of other origins may read. */
const EXPOSED = ['x-request-id', 'retry-after', 'inference-header-content-length'];

/**
 * @typedef {import('fastify').FastifyRequest} Request
 * @typedef {import('fastify').FastifyReply} Reply
 */

/** Errors of Fastify and Node, before a route has the request. */
function toCallersError(/** @type {any} */ error) {
  // Fastify gives each error of a body a status of its own.
  if (error instanceof ServeError) return error;
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') return new ServeError('tooLarge', 'the body is too large');
  if (typeof error.statusCode === 'number' && error.statusCode >= 400 && error.statusCode < 500) return new ServeError('invalid', error.message);
  return toServeError(error);
}

/**
 * Answers with an error in the form of the protocol.
 * @param {Request} request
 * @param {Reply} reply
 * @param {any} given
 */
function answerError(request, reply, given) {
  const error = toCallersError(given);
  const { message, retryAfterMs } = error;
  if (error.kind === 'internal') request.log.error({ err: error.cause ?? error }, 'request failed');
  // What plugins and routes of the user say, such as 429, stays; Fastify's own codes are those of the protocols.
  const isOthers = !(given instanceof ServeError) && given.statusCode >= 400 && !String(given.code).startsWith('FST_');
  const status = isOthers ? given.statusCode : error.status;
  if (status === 503) reply.header('Retry-After', Math.max(1, Math.ceil((retryAfterMs ?? 1000) / 1000)));
  if (status === 401) reply.header('WWW-Authenticate', 'Bearer');
  const body = isOpenAi(request.url) ? encodeError(error) : { error: message };
  return reply.code(status).type('application/json').send(JSON.stringify(body));
}

/** Ids of requests that have none: unique among processes, and faster than random ones. */
function requestIds() {
  const prefix = randomBytes(6).toString('hex');
  let count = 0;
  return (/** @type {{ headers: import('node:http').IncomingHttpHeaders }} */ { headers }) => {
    const given = headers['x-request-id'];
    if (typeof given === 'string' && REQUEST_ID.test(given)) return given;
    count += 1;
    return `${prefix}-${count.toString(36)}`;
  };
}

/**
 * What is malformed before there is a request.
 * @param {any} error
 * @param {import('node:net').Socket} socket
 */
function answerMalformed(error, socket) {
  if (!socket.writable) return;
  // In the middle of another response it would be a part of that.
  if (/** @type {any} */ (socket)._httpMessage?.headersSent) return void socket.destroy();
  const status =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? '431 Request Header Fields Too Large'
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? '408 Request Timeout'
        : '400 Bad Request';
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n{"error":"malformed HTTP"}\n`);
}

/** Bytes of the bodies that Fastify parses, on the thread of the server. @param {import('../serve.js').RequestLimits} limits */
const usersLimit = ({ maxTextBytes }) => Math.min(2 ** 20, maxTextBytes);

/**
 * Who may call, checked before a body is read.
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../serve.js').Context} context
 * @param {string[] | '*'} corsOrigins
 */
async function addAccess(app, { access, limits, registry, bodies, unread }, corsOrigins) {
  app.decorateRequest('call', /** @type {any} */ (null));
  const budgets = { bodies, unread };
  // The hooks of every request take a callback: an await in each took as long together as the rest of Fastify.
  app.addHook('onRequest', (request, reply, done) => {
    /** @type {any} */ (request).call = new Call(budgets, reply.raw);
    reply.header('x-request-id', request.id);
    access.checkOrigin(request.headers, request.raw.socket.localAddress);
    done();
  });
  // Preflights are answered before the key: they cannot have one.
  if (corsOrigins.length > 0) await app.register(cors, { origin: corsOrigins, methods: [...WITH_BODY, 'GET', 'HEAD'], exposedHeaders: EXPOSED, maxAge: 600 });
  const overloaded = new ServeError('overloaded', 'the server is overloaded', { retryAfterMs: 1000 });
  await app.register(underPressure, {
    maxEventLoopDelay: limits.maxEventLoopDelayMs,
    maxHeapUsedBytes: limits.maxHeapBytes,
    pressureHandler: (/** @type {Request} */ { url }) => (OPEN.test(url) ? undefined : Promise.reject(overloaded)),
  });
  const checkServes = (/** @type {Request} */ { method, url, is404 }) => {
    if (registry.isDraining && !OPEN.test(url)) throw new ServeError('unavailable', 'the server is shutting down', { retryAfterMs: 1000 });
    if (is404) throw new ServeError('notFound', `there is no ${method} ${url.slice(0, 200)}`);
  };
  app.addHook('onRequest', (request, _, done) => {
    const { url, headers } = request;
    if (!OPEN.test(url)) {
      access.checkKey(headers.authorization);
      if (access.asks) return void askUser(request).then(() => done(), done);
    }
    checkServes(request);
    done();
  });
  async function askUser(/** @type {Request} */ request) {
    const { method, url, headers, ip } = request;
    const caller = await access.ask({ protocol: 'http', method, url, headers, ip });
    if (caller !== undefined) request.log = /** @type {any} */ (request.log).child({ caller });
    checkServes(request);
  }
}

/**
 * Limits and counts of bodies, on every route that may have one. Those of the user's routes are read by Fastify, at once.
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../serve.js').Context} context
 */
function addBodies(app, { limits }) {
  const text = { bytes: limits.maxTextBytes, headBytes: limits.maxTextBytes };
  app.addHook('onRoute', function (route) {
    if (![route.method].flat().some((method) => WITH_BODY.includes(method))) return;
    const usual = this.hasRequestDecorator('isOwn') ? text : { bytes: route.bodyLimit ?? usersLimit(limits), headBytes: Infinity };
    const { bodyLimits = () => usual } = /** @type {any} */ (route.config ?? {});
    const admit = (/** @type {Request} */ request, /** @type {Reply} */ reply, /** @type {() => void} */ done) => {
      admitBody(request.headers, bodyLimits(request), callOf(request));
      if (request.headers.expect !== undefined) reply.raw.writeContinue();
      done();
    };
    route.onRequest = [route.onRequest ?? []].flat().concat(/** @type {any} */ (admit));
  });
  // The protocols count bodies where they read them.
  app.addHook('preParsing', (request, _, stream, done) => {
    done(null, 'isOwn' in request ? stream : /** @type {any} */ (countedBody(/** @type {import('node:stream').Readable} */ (stream), callOf(request))));
  });
}

/**
 * @param {import('node:http').IncomingMessage} request
 * @param {number} ms 0 for none
 */
function setIdleTimeout({ socket }, ms) {
  // The requests of Fastify's inject() have no real socket.
  if (socket instanceof Socket) socket.setTimeout(ms);
}

/**
 * Sends the end of a connection behind its last response, and closes it later: a connection that is closed with bytes unread is reset, and
 * the response is lost.
 * @param {Promise<void>} read settled when the caller has sent all, or too much
 * @param {import('node:net').Socket} socket
 */
function lingerUntil(read, socket) {
  if (!(socket instanceof Socket)) return;
  socket.destroySoon = () => {
    socket.end();
    void read.then(() => socket.destroy());
  };
}

/**
 * How responses and connections end.
 * @param {import('fastify').FastifyInstance} app
 * @param {import('../serve.js').Context} context
 */
function addEndings(app, { registry, limits, log }) {
  // While an answer is computed, nothing moves on its connection: that can take longer than a connection may be idle.
  app.addHook('preHandler', ({ raw }, _, done) => {
    setIdleTimeout(raw, 0);
    done();
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    setIdleTimeout(request.raw, limits.idleTimeoutMs);
    callOf(request)?.holdResponse(typeof payload === 'string' || Buffer.isBuffer(payload) ? payload.length : 0, reply.statusCode >= 400);
    // Fastify ends connections after errors of bodies; that loses the response while a body is still sent.
    reply.removeHeader('connection');
    endBody(request, reply);
    // A connection that stays open would hold up the end of the server.
    if (registry.isDraining) reply.header('connection', 'close');
    done(null, payload);
  });

  /**
   * Ends a body that was not read; it does not fail.
   * @param {Request} request
   * @param {Reply} reply
   */
  function endBody({ raw, headers }, reply) {
    const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;
    if (raw.complete || !hasBody || raw.destroyed) return;
    // Who still waits for permission to send a body sends none after an error.
    if (headers.expect !== undefined && callOf(reply.request)?.bodyLimit === undefined) return void reply.header('connection', 'close');
    // A body that is too long is rarely much longer; strangers are not waited for as long.
    const dropped = dropBody(raw, reply.raw, reply.statusCode === 401 ? STRANGERS_BYTES : Math.max(STRANGERS_BYTES, 2 * limits.maxBodyBytes));
    if (registry.isDraining || !reply.raw.shouldKeepAlive) lingerUntil(dropped, raw.socket);
  }

  app.addHook('onResponse', (request, reply, done) => {
    const { method, url } = request;
    if (log.isLevelEnabled?.('info') !== false && !url.startsWith('/v2/health'))
      request.log.info({ method, url, status: reply.statusCode, ms: Math.round(reply.elapsedTime * 10) / 10 }, 'request');
    done();
  });
}

/**
 * @param {import('../serve.js').Context} context
 * @param {object} options
 * @param {string[] | '*'} options.corsOrigins
 * @param {boolean} options.trustProxy
 * @param {boolean} options.hasMetrics whether the metrics are at this port
 * @param {(app: import('fastify').FastifyInstance) => unknown} [options.setup] adds routes, hooks and plugins of the user
 * @returns {Promise<ReturnType<typeof createApp>>}
 */
export async function createHttp(context, { corsOrigins, trustProxy, hasMetrics, setup }) {
  const { log, limits, metrics } = context;
  const onRefused = metrics.counter('webnn_serve_refused_connections_total', 'Number of connections beyond maxConnections');
  const app = createApp(
    {
      loggerInstance: log,
      logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
      bodyLimit: usersLimit(limits),
      trustProxy,
      return503OnClosing: false,
      genReqId: requestIds(),
      routerOptions: { maxParamLength: 512 },
      frameworkErrors: (error, request, reply) => answerError(request, reply, error),
      clientErrorHandler: answerMalformed,
    },
    limits,
    { log, onRefused },
  );
  await addAccess(app, context, corsOrigins);
  addBodies(app, context);
  addEndings(app, context);
  app.setErrorHandler((error, request, reply) => answerError(request, reply, error));
  if (hasMetrics) addMetricsRoute(app, metrics);

  addOpenApi(app, context.about);
  // In a scope of their own: routes of the user have Fastify's parser for JSON.
  await app.register(async (own) => {
    const memory = new BodyMemory(limits.maxBodyBytes);
    own.removeAllContentTypeParsers();
    own.addContentTypeParser('*', (/** @type {Request} */ request, /** @type {import('node:http').IncomingMessage} */ stream) =>
      readBody(stream, memory, callOf(request)),
    );
    own.decorateRequest('isOwn', true);
    addV2Routes(own, context, memory);
    addOpenAiRoutes(own, context);
    addGenerationRoutes(own, context);
  });
  await setup?.(app);
  return app;
}

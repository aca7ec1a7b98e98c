// The server for gRPC, on HTTP/2 without TLS.
//
// grpc-js reads and decodes a whole message before its handlers see the call, and so does Connect, which keeps as many bytes as the message
// claims to have. Here the key is looked at first, and bytes are counted as they come.

import { once } from 'node:events';
import http2 from 'node:http2';
import { Departure } from '../departure.js';
import { invalid, ServeError, toServeError } from '../errors.js';
import { Answer } from './answer.js';
import { Body } from './body.js';
import { Connection, GRACE_MS } from './connection.js';
import { createHealth } from './health.js';
import { inferenceMethods } from './inference.js';
import { REFLECTION_METHODS } from './reflection.js';

/** What a call takes beside its message, in the budget of all bytes in flight. */
const CALL_BYTES = 2 ** 14;

/** Bytes that a caller may send before the server reads them, on a connection and each of its calls. */
const WINDOW = 2 ** 20;

/** Milliseconds of the units of gRPC's timeouts. @type {Record<string, number>} */
const UNITS = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };

/**
 * When the caller is gone.
 * @param {string | undefined} timeout the header
 * @returns {number | undefined} in milliseconds of performance.now()
 */
function deadlineOf(timeout) {
  if (timeout === undefined) return undefined;
  const [, digits, unit] = /^(\d{1,8})([HMSmun])$/.exec(timeout) ?? [];
  if (digits === undefined) throw invalid(`grpc-timeout is ${JSON.stringify(timeout.slice(0, 20))}`);
  return performance.now() + Number(digits) * UNITS[unit];
}

/**
 * Answers a call.
 * @param {import('../serve.js').Context} context
 * @param {import('./methods.js').Method | undefined} method
 * @param {import('node:http2').ServerHttp2Stream} stream
 * @param {import('node:http2').IncomingHttpHeaders} headers
 * @param {Connection} connection
 */
async function serveCall({ access, registry, bodies, unread, limits, log }, method, stream, headers, connection) {
  const answer = new Answer(stream, { unread, idleTimeoutMs: limits.idleTimeoutMs });
  const departure = new Departure();
  stream.once('close', () => departure.say());
  let hasPlace = false;
  /** @type {Body | undefined} */
  let body;
  try {
    const hasRoom = connection.begin(stream, method?.isOpen === true);
    if (method === undefined) throw new ServeError('unimplemented', `there is no ${String(headers[':path']).slice(0, 200)}`);
    const { isOpen, takesMany, limit } = method;
    if (!isOpen) {
      const ip = stream.session?.socket?.remoteAddress ?? '';
      await access.admit({ protocol: 'grpc', method: 'POST', url: String(headers[':path']), headers, ip });
    }
    if (!isOpen && registry.isDraining) throw new ServeError('unavailable', 'the server is shutting down');
    hasPlace = !isOpen && bodies.take(CALL_BYTES);
    if (!hasRoom || (!isOpen && !hasPlace)) throw new ServeError('overloaded', 'too many requests are in flight', { retryAfterMs: 1000 });
    // The client may have left while its key was checked.
    if (departure.aborted) throw new ServeError('canceled', 'the client is gone');
    const deadline = deadlineOf(/** @type {string | undefined} */ (headers['grpc-timeout']));
    body = new Body(stream, {
      encoding: String(headers['grpc-encoding']),
      limit,
      budget: bodies,
      timeoutMs: limits.requestTimeoutMs,
      mayBeMany: takesMany,
    });
    const options = { signal: departure, deadline };
    /** @type {Promise<void> | undefined} */
    let sent;
    for await (const bytes of takesMany ? body.all() : [await body.only()]) {
      for await (const pieces of method.answer(bytes, options)) {
        if (!takesMany) body.release();
        // One answer waits at a time, and the status follows the last one at once.
        await sent;
        sent = answer.write(pieces);
      }
    }
    answer.end();
  } catch (error) {
    const known = toServeError(error);
    if (known.kind === 'internal') log.error({ err: known.cause ?? error }, 'call failed');
    answer.end(known);
  } finally {
    body?.release();
    if (hasPlace) bodies.give(CALL_BYTES);
  }
}

const isGrpc = (/** @type {import('node:http2').IncomingHttpHeaders} */ { ':method': method, 'content-type': type = '' }) =>
  method === 'POST' && /^application\/grpc(\+proto)?(;|$)/.test(type);

/**
 * Answers what is no call. A status of gRPC would be a success for those who do not know it.
 * @param {import('../serve.js').Context} context
 * @param {import('node:http2').ServerHttp2Stream} stream
 * @param {Connection} connection
 */
async function refuse({ unread, limits }, stream, connection) {
  connection.begin(stream, false);
  new Answer(stream, { unread, idleTimeoutMs: limits.idleTimeoutMs }).endWith({ ':status': 415 });
}

/** What HTTP/2 does itself about callers that send what they should not. */
const HTTP2 = { maxSessionInvalidFrames: 100, maxSessionRejectedStreams: 100, maxHeaderListPairs: 128 };

/**
 * Starts the services.
 * @param {import('../serve.js').Context} context
 * @param {{ host: string, port: number }} address
 * @returns {Promise<import('../serve.js').Part>}
 */
export async function listenGrpc(context, { host, port }) {
  const { log, limits } = context;
  const health = createHealth(context);
  const methods = new Map([...inferenceMethods(context), ...health.methods, ...REFLECTION_METHODS]);
  const settings = { maxConcurrentStreams: limits.maxStreams, initialWindowSize: WINDOW, maxHeaderListSize: 2 ** 14 };
  // In millions: what HTTP/2 itself needs, and answers that wait, which are counted here.
  const maxSessionMemory = 10 + Math.ceil(limits.maxUnreadBytes / 1e6);
  const server = http2.createServer({ ...HTTP2, maxSessionMemory, settings });
  server.maxConnections = limits.maxConnections;
  /** @type {Set<Connection>} */
  const connections = new Set();
  server.on('connection', (socket) => {
    // Callers can leave their end open when this one is closed.
    socket.once('finish', () => setTimeout(() => socket.destroy(), GRACE_MS));
  });
  server.on('session', (session) => {
    // The oldest one on which nothing happens makes room for the next.
    if (connections.size + 1 >= limits.maxConnections) [...connections].find(({ isUnused }) => isUnused)?.close();
    const connection = new Connection(session, limits);
    connections.add(connection);
    session.once('close', () => connections.delete(connection));
    session.setLocalWindowSize(WINDOW);
    session.on('stream', (/** @type {http2.ServerHttp2Stream} */ stream, headers) => {
      stream.on('error', (error) => log.debug({ err: error }, 'call ended'));
      const serving = isGrpc(headers)
        ? serveCall(context, methods.get(String(headers[':path'])), stream, headers, connection)
        : refuse(context, stream, connection);
      serving.catch((error) => {
        log.error({ err: error }, 'call failed');
        stream.destroy();
      });
    });
  });
  server.on('sessionError', (error) => log.debug({ err: error }, 'connection ended'));
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    health.close();
    throw error;
  }
  const { port: bound } = /** @type {import('node:net').AddressInfo} */ (server.address());

  async function close() {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const connection of connections) connection.close();
    const timer = setTimeout(() => {
      for (const connection of connections) connection.destroy();
    }, limits.drainMs);
    await closed;
    clearTimeout(timer);
    health.close();
  }
  return { name: 'grpc', url: `grpc://${host.includes(':') ? `[${host}]` : host}:${bound}`, close };
}

// The connections of a port: how many there may be, and how they end.

import dns from 'node:dns/promises';
import http from 'node:http';
import net from 'node:net';
import fastify from 'fastify';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';

/** A server that ends, and owes no response any more, closes a connection on which nothing has moved for so long. */
const QUIET_MS = 200;

/** The same for a connection whose request has begun to arrive. */
const STALLED_MS = 1000;

/** How often a server that ends looks at its connections. */
const LOOK_MS = 25;

/** Until the head of a request must have arrived, also the first one of a connection. */
const HEAD_MS = 10_000;

/** Warnings about refused connections are no closer to each other than this. */
const WARNING_MS = 10_000;

/**
 * @typedef {object} Connection
 * @property {Set<http.ServerResponse & { req: http.IncomingMessage }>} responses not sent yet, the next one first
 * @property {number} usedAt when it was last used
 * @property {number} bytes read when the drain last looked
 * @property {number} since when, during the drain, bytes last arrived
 */

/** Knows which connections of a server wait for it, and which it waits for. */
export class Connections {
  /** @type {Map<net.Socket, Connection>} */
  #open = new Map();
  /** What listens at further addresses. @type {net.Server[]} */
  #others = [];
  server;

  /**
   * @param {http.RequestListener} handler
   * @param {{ requestTimeoutMs: number, idleTimeoutMs: number, maxConnections: number }} limits
   * @param {{ onRefused: () => void, log: any }} options called for each connection beyond `maxConnections`
   */
  constructor(handler, { requestTimeoutMs, idleTimeoutMs, maxConnections }, { onRefused, log }) {
    const handle = (/** @type {http.IncomingMessage} */ request, /** @type {http.ServerResponse & { req: http.IncomingMessage }} */ response) => {
      const connection = this.#open.get(request.socket);
      connection?.responses.add(response);
      response.once('close', () => {
        if (connection === undefined) return;
        connection.responses.delete(response);
        connection.usedAt = performance.now();
      });
      // Requests that are sent ahead begin when the responses before theirs are sent: a connection has one at a time, and nothing is
      // held for those that come no further, whose responses Node does not tell that the connection has ended.
      if (response.socket === null) response.once('socket', () => handler(request, response));
      else handler(request, response);
    };
    // A body must arrive within this time; how long the response takes is not limited by it.
    const headersTimeout = Math.min(HEAD_MS, requestTimeoutMs);
    const timeouts = { requestTimeout: requestTimeoutMs, headersTimeout, connectionsCheckingInterval: Math.min(1000, requestTimeoutMs) };
    this.server = http.createServer({ ...timeouts, keepAliveTimeout: idleTimeoutMs }, handle);
    // Who asks before sending a body waits until the request is admitted.
    this.server.on('checkContinue', handle);
    this.server.setTimeout(idleTimeoutMs);
    this.server.maxConnections = maxConnections;
    this.server.on('connection', (socket) => {
      /** @type {Connection} */
      const connection = { responses: new Set(), usedAt: performance.now(), bytes: 0, since: 0 };
      this.#open.set(socket, connection);
      if (this.#open.size >= maxConnections) this.#endUnused(socket);
      socket.once('close', () => this.#open.delete(socket));
    });
    let warned = -Infinity;
    this.server.on('drop', () => {
      onRefused();
      const now = performance.now();
      if (now - warned < WARNING_MS) return;
      warned = now;
      log.warn({ maxConnections }, 'connections are refused: there are too many');
    });
  }

  /**
   * Makes room for the next connection: the one that has been unused for longest gives way.
   * @param {net.Socket} latest which has had no time to be used
   */
  #endUnused(latest) {
    /** @type {[net.Socket | undefined, number]} */
    let [unused, since] = [undefined, Infinity];
    for (const [socket, { responses, usedAt }] of this.#open) {
      if (socket !== latest && responses.size === 0 && usedAt < since) [unused, since] = [socket, usedAt];
    }
    unused?.destroy();
  }

  /** Listens at the other addresses of a name, too: `localhost` has two. @param {string} host */
  async listenAtOthers(host) {
    const { address: own, port } = /** @type {net.AddressInfo} */ (this.server.address());
    const others = (await dns.lookup(host, { all: true })).filter(({ address }) => address !== own);
    for (const { address } of others) {
      const other = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.server.emit('connection', socket));
      other.maxConnections = this.server.maxConnections;
      // A machine without IPv6 still has a name for it.
      const isListening = await new Promise((resolve) => other.once('error', () => resolve(false)).listen({ host: address, port }, () => resolve(true)));
      if (isListening) this.#others.push(other);
    }
  }

  /**
   * Accepts no more connections, and waits until the open ones have ended: each has its responses first, and then a moment in
   * which a request that is on its way can arrive.
   * @param {number} limitMs after which they are ended
   */
  async drain(limitMs) {
    // That of http would end connections at once on which a request may be on its way.
    net.Server.prototype.close.call(this.server);
    for (const other of this.#others) other.close();
    const start = performance.now();
    for (const connection of this.#open.values()) connection.since = start;
    while (this.#open.size > 0 && performance.now() - start < limitMs) {
      await sleep(LOOK_MS);
      // What has arrived meanwhile is read before connections are found to be quiet.
      await turn();
      this.#endQuiet(performance.now());
    }
    for (const socket of this.#open.keys()) socket.destroy();
  }

  /**
   * While the server owes a response somewhere, requests on other connections are still answered: with 503.
   * @param {number} now
   */
  #endQuiet(now) {
    const connections = [...this.#open];
    const isBusy = connections.some(([, connection]) => isAnswered(connection));
    for (const [socket, connection] of connections) {
      const { responses, bytes } = connection;
      const hasBegun = responses.size > 0;
      if (socket.bytesRead !== bytes || (isBusy && !hasBegun)) Object.assign(connection, { bytes: socket.bytesRead, since: now });
      if (isAnswered(connection)) continue;
      if (now - connection.since >= (hasBegun ? STALLED_MS : QUIET_MS)) socket.destroy();
    }
  }
}

/** Whether a request has arrived whose response is not sent yet. @param {Connection} connection */
const isAnswered = ({ responses }) => [...responses].some(({ req }) => req.complete);

/**
 * A server of Fastify whose `close()` drains its connections.
 * @param {import('fastify').FastifyHttpOptions<http.Server, any>} options
 * @param {ConstructorParameters<typeof Connections>[1] & { drainMs: number }} limits
 * @param {ConstructorParameters<typeof Connections>[2]} reports
 * @returns {import('fastify').FastifyInstance & { connections: Connections }}
 */
export function createApp(options, limits, reports) {
  /** @type {Connections | undefined} */
  let connections;
  const app = fastify({ ...options, serverFactory: (handler) => (connections = new Connections(handler, limits, reports)).server });
  app.addHook('preClose', () => connections?.drain(limits.drainMs));
  return /** @type {any} */ (app.decorate('connections', connections));
}

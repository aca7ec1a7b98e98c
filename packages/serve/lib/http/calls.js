// What a request holds while it is answered: bytes of its body and of its response, and a signal for a caller that has gone.

import { noRoom } from '../byte-budget.js';
import { Departure } from '../departure.js';
import { ServeError } from '../errors.js';

/** A request over HTTP, until its response is sent or its caller is gone. */
export class Call {
  #budgets;
  #response;
  #body = 0;
  /** @type {ReturnType<import('../byte-budget.js').ByteBudget['arrive']> | undefined} */
  #arrival;
  #unread = 0;
  #gone = new Departure();
  /** Bytes that the body may have, from when the request is admitted: until then nobody reads it. @type {number | undefined} */
  bodyLimit;

  /**
   * @param {Pick<import('../serve.js').Context, 'bodies' | 'unread'>} budgets
   * @param {import('node:http').ServerResponse} response
   */
  constructor(budgets, response) {
    this.#budgets = budgets;
    this.#response = response;
    // A response that is destroyed already emits no more events.
    if (response.destroyed) this.#gone.say();
    else response.once('close', () => this.#end());
  }

  /** Aborted when the caller is gone. @returns {import('../departure.js').Signal} */
  get signal() {
    return this.#gone;
  }

  /**
   * Refuses a body for which there is no room now. Nothing is kept free for it: callers may announce what they never send.
   * @param {number} bytes
   * @throws {ServeError} `overloaded`
   */
  checkRoom(bytes) {
    if (!this.#budgets.bodies.hasRoom(bytes)) throw noRoom();
  }

  /**
   * The body begins to arrive.
   * @param {(error: ServeError) => void} fail ends reading it: it comes too slowly, and others need the room
   */
  beginBody(fail) {
    this.#arrival = this.#budgets.bodies.arrive(() => {
      this.#giveBody();
      fail(new ServeError('overloaded', 'the server holds too many request bodies, and this one came too slowly', { retryAfterMs: 1000 }));
    });
  }

  /** @param {number} bytes that came over the network */
  came(bytes) {
    this.#arrival?.came(bytes);
  }

  /**
   * Counts bytes of the body.
   * @param {number} bytes
   * @throws {ServeError} `overloaded` if the bodies of all requests leave no room for them
   */
  holdBody(bytes) {
    if (this.#response.destroyed) throw new ServeError('canceled', 'the client is gone');
    if (!this.#budgets.bodies.take(bytes)) throw noRoom();
    this.#body += bytes;
  }

  /** The body is there, or nobody reads it any more. */
  endBody() {
    if (this.#arrival !== undefined) this.#budgets.bodies.arrived(this.#arrival);
    this.#arrival = undefined;
  }

  #giveBody() {
    this.#budgets.bodies.give(this.#body);
    this.#body = 0;
  }

  /**
   * Counts bytes of the response: callers that do not read must not fill the memory.
   * @param {number} bytes
   * @param {boolean} isError errors always have room, or nobody would hear of the lack of it
   * @throws {ServeError} `overloaded` if the unread responses of all requests leave no room
   */
  holdResponse(bytes, isError) {
    if (this.#response.destroyed) return;
    if (isError) this.#budgets.unread.force(bytes);
    else if (!this.#budgets.unread.take(bytes)) throw new ServeError('overloaded', 'too many responses wait to be read', { retryAfterMs: 1000 });
    this.#unread += bytes;
  }

  #end() {
    this.endBody();
    this.#giveBody();
    this.#budgets.unread.give(this.#unread);
    if (!this.#response.writableFinished) this.#gone.say();
  }
}

/**
 * The call of a request: the first hook of the server makes it.
 * @param {import('fastify').FastifyRequest} request
 * @returns {Call}
 */
export const callOf = (request) => /** @type {any} */ (request).call;

/**
 * A signal for a caller that has gone, and its deadline.
 * @param {import('fastify').FastifyRequest} request
 * @param {number} [timeoutMs] that the body names
 * @returns {{ signal: import('../departure.js').Signal, deadline: number | undefined }}
 */
export function callOptions(request, timeoutMs) {
  return { signal: callOf(request).signal, deadline: timeoutMs === undefined ? undefined : performance.now() + timeoutMs };
}

/**
 * The bytes of a request; a parser is not asked where there are none.
 * @param {import('fastify').FastifyRequest} request
 * @returns {Buffer}
 */
export const bodyOf = ({ body }) => /** @type {Buffer | undefined} */ (body) ?? Buffer.alloc(0);

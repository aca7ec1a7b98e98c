// Server-sent events.

import { PassThrough } from 'node:stream';

/** Bytes of a stream that its caller has not read: then nobody reads it any more. */
const MAX_UNREAD_BYTES = 2 ** 20;

/** Timers of Node count in 32 bits. */
const LONGEST_MS = 2 ** 31 - 1;

/**
 * A stream of events. Until the first one it has comments as heartbeats, and between events, too: proxies and clients give a
 * connection up on which nothing moves. A caller who does not read must not fill the memory.
 */
export class EventStream {
  #stream = new PassThrough();
  #unread;
  #timer;
  /** @type {() => void} */
  #open = () => undefined;
  /** Whether something was written: from then on, errors are events. */
  isOpen = false;
  /** Resolves at the first event or heartbeat. @type {Promise<void>} */
  opened = new Promise((resolve) => {
    this.#open = resolve;
  });

  /**
   * @param {number} heartbeatMs
   * @param {AbortController} unread is aborted when the caller does not read
   */
  constructor(heartbeatMs, unread) {
    this.#unread = unread;
    this.#timer = setInterval(() => this.#write(': ping\n\n'), Math.min(heartbeatMs, LONGEST_MS)).unref();
  }

  /** @param {string} data */
  write(data) {
    this.#write(`data: ${data}\n\n`);
    this.#timer.refresh();
  }

  /** @param {string} text */
  #write(text) {
    this.isOpen = true;
    this.#open();
    this.#stream.write(text);
    if (this.#stream.writableLength + this.#stream.readableLength > MAX_UNREAD_BYTES) this.#unread.abort();
  }

  end() {
    clearInterval(this.#timer);
    this.#stream.end();
  }

  /**
   * Answers with the events.
   * @param {import('fastify').FastifyReply} reply
   */
  send(reply) {
    return reply.type('text/event-stream').header('cache-control', 'no-cache').header('x-accel-buffering', 'no').send(this.#stream);
  }
}

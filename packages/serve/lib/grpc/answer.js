// What a call is answered with: messages, and a status behind them.

import { constants } from 'node:http2';
import { ServeError } from '../errors.js';
import { ENCODINGS } from './body.js';

/** Numbers of the codes of gRPC. @type {Record<string, number>} */
const CODES = {
  CANCELLED: 1,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
};

const HEADERS = { ':status': 200, 'content-type': 'application/grpc', 'grpc-accept-encoding': ENCODINGS };

/** Characters of an error's message: clients take headers of some kilobytes. */
const MESSAGE_LENGTH = 1000;

/**
 * The status of an error.
 * @param {ServeError} error
 */
function statusOf({ grpc, message }) {
  const text = message.slice(0, MESSAGE_LENGTH).toWellFormed();
  return { 'grpc-status': CODES[grpc], 'grpc-message': text.replace(/[^ -$&-~]+/g, encodeURIComponent) };
}

export class Answer {
  #stream;
  #unread;
  #idleTimeoutMs;
  #unreadBytes = 0;

  /**
   * @param {import('node:http2').ServerHttp2Stream} stream
   * @param {object} options
   * @param {import('../byte-budget.js').ByteBudget} options.unread
   * @param {number} options.idleTimeoutMs after which a caller who reads nothing gets nothing more
   */
  constructor(stream, { unread, idleTimeoutMs }) {
    this.#stream = stream;
    this.#unread = unread;
    this.#idleTimeoutMs = idleTimeoutMs;
    stream.once('close', () => this.#give(this.#unreadBytes));
    stream.on('timeout', () => stream.close(constants.NGHTTP2_CANCEL));
  }

  /** @param {number} bytes that were read */
  #give(bytes) {
    this.#unread.give(bytes);
    this.#unreadBytes -= bytes;
  }

  /**
   * Sends a message.
   * @param {Uint8Array[]} pieces
   * @returns {Promise<void> | undefined} until it is on its way, or the caller is gone
   * @throws {ServeError} at once if too many answers are not read
   */
  write(pieces) {
    const stream = this.#stream;
    if (stream.closed || stream.destroyed) return undefined;
    const head = Buffer.alloc(5);
    head.writeUInt32BE(
      pieces.reduce((sum, { length }) => sum + length, 0),
      1,
    );
    const bytes = Buffer.concat([head, ...pieces]);
    if (!this.#unread.take(bytes.length)) throw new ServeError('overloaded', 'too many responses wait to be read', { retryAfterMs: 1000 });
    this.#unreadBytes += bytes.length;
    if (!stream.headersSent) stream.respond(HEADERS, { waitForTrailers: true });
    stream.setTimeout(this.#idleTimeoutMs);
    return new Promise((resolve) => {
      stream.write(bytes, () => {
        if (!stream.destroyed) this.#give(bytes.length);
        if (!stream.writableEnded) stream.setTimeout(0);
        resolve();
      });
    });
  }

  /**
   * Sends the status, and wants nothing more of the caller.
   * @param {ServeError} [error]
   */
  end(error) {
    const stream = this.#stream;
    const status = error === undefined ? { 'grpc-status': 0 } : statusOf(error);
    if (!stream.headersSent) this.endWith({ ...HEADERS, ...status });
    else if (!stream.closed && !stream.destroyed) {
      stream.once('wantTrailers', () => {
        stream.sendTrailers(status);
        this.#leave();
      });
      stream.setTimeout(this.#idleTimeoutMs);
      stream.end();
    }
  }

  /**
   * Answers with nothing but headers.
   * @param {import('node:http2').OutgoingHttpHeaders} headers
   */
  endWith(headers) {
    const stream = this.#stream;
    if (stream.closed || stream.destroyed) return;
    stream.setTimeout(this.#idleTimeoutMs);
    stream.respond(headers, { endStream: true });
    this.#leave();
  }

  /** Tells a caller who is still sending to stop, but only once the status is sent: a reset would discard a queued status. */
  #leave() {
    const stream = this.#stream.resume();
    if (!stream.readableEnded) setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR));
  }
}

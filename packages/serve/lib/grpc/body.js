// The messages of a call, as they arrive. What came is counted before it is kept, and nothing is made of the size that a message only
// claims to have.

import zlib from 'node:zlib';
import { invalid, ServeError } from '../errors.js';

/** Bytes before each message: whether it is compressed, and its length. */
const HEAD_BYTES = 5;

/** Bytes that are kept for a message before they came. */
const FIRST_BYTES = 2 ** 16;

/** A message grows by this factor. */
const GROWTH = 4;

/** Messages that wait for a call that takes several. */
const MAX_WAITING = 64;

/** @type {Record<string, () => import('node:stream').Transform>} */
const DECODERS = { gzip: zlib.createGunzip, deflate: zlib.createInflate };

/** What clients may compress with, as a header has it. */
export const ENCODINGS = ['identity', ...Object.keys(DECODERS)].join(',');

/** @typedef {{ bytes: Buffer, isCompressed: boolean }} Message */

export class Body {
  #stream;
  #limit;
  #budget;
  #encoding;
  /** Bytes that came, and those that the budget counts for them. */
  #came = 0;
  #taken = 0;
  #head = Buffer.alloc(HEAD_BYTES);
  #headBytes = 0;
  /** Where the message goes that comes. @type {Buffer} */
  #buffer = Buffer.alloc(0);
  #length = 0;
  #arrived = 0;
  /** @type {Message[]} */
  #messages = [];
  #mayBeMany;
  #count = 0;
  #isAtEnd = false;
  /** @type {unknown} */
  #error;
  #wake = () => {};
  #timer;
  #arrival;

  /**
   * Begins to read.
   * @param {import('node:http2').ServerHttp2Stream} stream
   * @param {object} options
   * @param {string} options.encoding of messages that are compressed
   * @param {number} options.limit bytes of all messages of the call, compressed or not
   * @param {import('../byte-budget.js').ByteBudget} options.budget of all calls
   * @param {number} options.timeoutMs until all must have come
   * @param {boolean} options.mayBeMany whether a second message is no error
   */
  constructor(stream, { encoding, limit, budget, timeoutMs, mayBeMany }) {
    this.#stream = stream;
    this.#limit = limit;
    this.#budget = budget;
    this.#encoding = encoding;
    this.#mayBeMany = mayBeMany;
    this.#timer = setTimeout(() => this.#fail(new ServeError('deadline', `the request did not arrive within ${timeoutMs} ms`)), timeoutMs);
    this.#arrival = budget.arrive(() => {
      this.#give();
      this.#fail(new ServeError('overloaded', 'too many bytes of requests are in flight, and these came too slowly', { retryAfterMs: 1000 }));
    });
    stream.on('data', this.#onData);
    stream.once('end', this.#onEnd);
    stream.once('close', this.#onClose);
  }

  #onData = (/** @type {Buffer} */ chunk) => {
    this.#arrival.came(chunk.length);
    try {
      this.#take(chunk.length);
      this.#came += chunk.length;
      // The heads of messages do not count, but there must not be any number of them.
      if (this.#came > this.#limit + HEAD_BYTES * MAX_WAITING) throw this.#tooLarge();
      for (let at = 0; at < chunk.length; ) at = this.#keep(chunk, at);
    } catch (error) {
      this.#fail(error);
    }
  };

  #onEnd = () => {
    if (this.#headBytes > 0) this.#fail(invalid('the message ends too early'));
    else this.#end();
  };

  #onClose = () => this.#fail(new ServeError('canceled', 'the client is gone'));

  /** Stops reading: what still comes is dropped. */
  #end() {
    this.#isAtEnd = true;
    clearTimeout(this.#timer);
    this.#budget.arrived(this.#arrival);
    this.#stream.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose).resume();
    this.#wake();
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#error = error;
    this.#messages = [];
    this.#buffer = Buffer.alloc(0);
    this.#end();
  }

  /** @param {number} bytes that come */
  #take(bytes) {
    if (!this.#budget.take(bytes)) throw new ServeError('overloaded', 'too many bytes of requests are in flight', { retryAfterMs: 1000 });
    this.#taken += bytes;
  }

  #tooLarge() {
    return new ServeError('tooLarge', `the request has more than ${this.#limit} bytes`);
  }

  /**
   * Keeps bytes of one message.
   * @param {Buffer} chunk
   * @param {number} at
   * @returns {number} where the rest of the chunk begins
   */
  #keep(chunk, at) {
    if (this.#headBytes < HEAD_BYTES) {
      const copied = chunk.copy(this.#head, this.#headBytes, at);
      this.#headBytes += copied;
      if (this.#headBytes === HEAD_BYTES) this.#begin();
      return at + copied;
    }
    const end = Math.min(chunk.length, at + this.#length - this.#arrived);
    const arrived = this.#arrived + end - at;
    if (arrived > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.min(this.#length, arrived * GROWTH));
      this.#buffer.copy(larger, 0, 0, this.#arrived);
      this.#buffer = larger;
    }
    chunk.copy(this.#buffer, this.#arrived, at, end);
    this.#arrived = arrived;
    if (arrived === this.#length) this.#finish();
    return end;
  }

  /** Reads a head. */
  #begin() {
    if (this.#head[0] > 1) throw invalid('the message is not of gRPC');
    this.#count += 1;
    if (this.#count > 1 && !this.#mayBeMany) throw invalid('the call takes one message');
    if (this.#messages.length === MAX_WAITING) throw new ServeError('tooLarge', `more than ${MAX_WAITING} messages wait`);
    this.#length = this.#head.readUInt32BE(1);
    if (this.#length > this.#limit) throw this.#tooLarge();
    if (this.#head[0] === 1 && !Object.hasOwn(DECODERS, this.#encoding)) {
      throw new ServeError('unimplemented', `there is no compression ${JSON.stringify(this.#encoding)}, expected one of ${ENCODINGS}`);
    }
    this.#arrived = 0;
    this.#buffer = Buffer.allocUnsafeSlow(Math.min(this.#length, FIRST_BYTES));
    if (this.#length === 0) this.#finish();
  }

  #finish() {
    this.#headBytes = 0;
    this.#messages.push({ bytes: this.#buffer, isCompressed: this.#head[0] === 1 });
    this.#buffer = Buffer.alloc(0);
    this.#wake();
  }

  /**
   * @param {Buffer} bytes
   * @returns {Promise<Buffer>}
   */
  async #decompressed(bytes) {
    const decoder = DECODERS[this.#encoding]();
    decoder.end(bytes);
    const chunks = [];
    let length = 0;
    try {
      for await (const chunk of decoder) {
        this.#take(chunk.length);
        length += chunk.length;
        if (length > this.#limit) throw this.#tooLarge();
        chunks.push(chunk);
      }
    } catch (cause) {
      if (cause instanceof ServeError) throw cause;
      throw invalid(`the message is not ${this.#encoding}: ${/** @type {Error} */ (cause).message}`, { cause });
    }
    return Buffer.concat(chunks);
  }

  /** Waits until something came. */
  #news() {
    return new Promise((resolve) => (this.#wake = () => resolve(undefined)));
  }

  /**
   * The messages of a call that takes several.
   * @returns {AsyncGenerator<Buffer, void>}
   * @throws {ServeError}
   */
  async *all() {
    for (;;) {
      while (this.#messages.length === 0 && !this.#isAtEnd) await this.#news();
      if (this.#error !== undefined) throw this.#error;
      const message = this.#messages.shift();
      if (message === undefined) return;
      yield message.isCompressed ? await this.#decompressed(message.bytes) : message.bytes;
    }
  }

  /**
   * The only message, when the caller has sent all of its call.
   * @returns {Promise<Buffer>}
   * @throws {ServeError}
   */
  async only() {
    while (!this.#isAtEnd) await this.#news();
    for await (const message of this.all()) return message;
    throw invalid('the call has no message');
  }

  /** Gives the bytes back: nobody needs the messages any more. Stops reading if they are not all there. */
  release() {
    if (!this.#isAtEnd) this.#fail(new ServeError('canceled', 'the call is over'));
    this.#give();
    this.#messages = [];
  }

  #give() {
    this.#budget.give(this.#taken);
    this.#taken = 0;
  }
}

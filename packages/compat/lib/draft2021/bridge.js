'use strict';

/**
 * Runs work on another thread and waits for it: `build()` and `compute()` of the draft of 2021 are synchronous, today's
 * are not. The first context starts the thread, which does not keep the process alive.
 */

const { MessageChannel, Worker, receiveMessageOnPort } = require('node:worker_threads');
const { notSupportedError } = require('webnn-node/internal/webidl');

const { DOMException, FinalizationRegistry, Int32Array, SharedArrayBuffer } = globalThis;
const { load, store, wait } = Atomics;

/** Indices into the memory shared by both threads. */
const fields = { DONE: 0, BEAT: 1, ENDED: 2 };

/** Length of one wait in milliseconds, and how many may pass without a sign of life. */
const WAIT_MS = 1000;
const MAX_SILENT_WAITS = 60;

/**
 * Recreates an error from its plain data.
 *
 * @param {{ kind: string, name: string, message: string }} error
 */
function thrown({ kind, name, message }) {
  if (kind === 'DOMException') {
    return new DOMException(message, name);
  }
  return kind === 'TypeError' ? new TypeError(message) : new Error(message);
}

/** The connection to the thread. */
class Bridge {
  #port;
  /** @type {Int32Array<SharedArrayBuffer>} */
  #state;
  /** @type {Error | undefined} */
  #failure;
  #lastId = 0;
  /** @type {FinalizationRegistry<{ kind: string, id: number }>} */
  #released = new FinalizationRegistry((what) => this.post('release', what));

  constructor() {
    const { port1, port2 } = new MessageChannel();
    const signal = new SharedArrayBuffer(Object.keys(fields).length * Int32Array.BYTES_PER_ELEMENT);
    this.#port = port1;
    this.#state = new Int32Array(signal);
    // Resolved here, to fail at once if the file is missing (in a bundle): nothing would ever answer the wait for such
    // a thread.
    const worker = new Worker(require.resolve('./worker.js'), {
      name: 'webnn-node contexts of 2021',
      workerData: { port: port2, signal, fields },
      transferList: [port2],
      // The program's own arguments (loaders, a file for --import) are not meant for this thread.
      execArgv: [],
    });
    worker.on('error', (error) => {
      this.#failure = /** @type {Error} */ (error);
    });
    worker.on('exit', () => store(this.#state, fields.ENDED, 1));
    worker.unref();
    port1.unref();
  }

  /** Whether the thread has ended. */
  get hasEnded() {
    return load(this.#state, fields.ENDED) === 1;
  }

  /** @returns {number} an id for an object of the thread */
  nextId() {
    return ++this.#lastId;
  }

  /**
   * Frees an object of the thread when its counterpart here is collected.
   *
   * @param {object} object
   * @param {'context' | 'builder' | 'graph'} kind
   * @param {number} id
   */
  releaseWith(object, kind, id) {
    this.#released.register(object, { kind, id });
  }

  /**
   * Sends a request to the thread without waiting for it.
   *
   * @param {string} type
   * @param {object} request
   */
  post(type, request) {
    this.#port.postMessage({ type, request, awaited: false });
  }

  /**
   * Sends a request to the thread and waits for it.
   *
   * @param {string} type one of the handlers in worker.js
   * @param {object} request
   * @param {ArrayBuffer[]} [transfer] buffers that move to the thread
   * @returns {any} the handler's result
   * @throws {Error} the handler's error; OperationError if the thread has ended
   */
  call(type, request, transfer = []) {
    store(this.#state, fields.DONE, 0);
    this.#requireAlive();
    this.#port.postMessage({ type, request, awaited: true }, transfer);
    this.#waitUntilDone();
    const received = receiveMessageOnPort(this.#port);
    if (received === undefined) {
      throw this.#ended();
    }
    const { value, error } = received.message;
    if (error !== undefined) {
      throw thrown(error);
    }
    return value;
  }

  #waitUntilDone() {
    let silent = 0;
    let beats = load(this.#state, fields.BEAT);
    while (load(this.#state, fields.DONE) === 0) {
      this.#wait();
      const current = load(this.#state, fields.BEAT);
      silent = current === beats ? silent + 1 : 0;
      beats = current;
      if (silent > MAX_SILENT_WAITS) {
        store(this.#state, fields.ENDED, 1);
        this.#requireAlive();
      }
    }
  }

  #wait() {
    try {
      wait(this.#state, fields.DONE, 0, WAIT_MS);
    } catch {
      // The pages of a browser, and of Electron, must not wait.
      throw notSupportedError('the draft of 2021 computes synchronously, but this thread must not wait');
    }
  }

  #requireAlive() {
    if (this.hasEnded) {
      throw this.#ended();
    }
  }

  #ended() {
    const reason = this.#failure === undefined ? '' : `: ${this.#failure.message}`;
    const message = `the thread that computes for contexts of the draft of 2021 has ended${reason}`;
    return new DOMException(message, 'OperationError');
  }
}

/** @type {Bridge | undefined} */
let bridge;

/** @returns {Bridge} the bridge for new contexts of this thread, started on first use */
function theBridge() {
  if (bridge === undefined || bridge.hasEnded) {
    bridge = new Bridge();
  }
  return bridge;
}

module.exports = { Bridge, theBridge };

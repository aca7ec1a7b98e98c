// Reads and writes JSON. What is long goes to a thread of its own, where it stops nobody else.

import { Worker } from 'node:worker_threads';
import { noRoom } from '../byte-budget.js';
import { amount, invalid, ServeError, toServeError } from '../errors.js';
import { READERS, WRITERS } from './kinds.js';

/** Shorter JSON is read at once, in bytes: one millisecond at most. */
const SHORT_BYTES = 2 ** 16;

/** Fewer elements are written at once: some milliseconds at most. */
const FEW_ELEMENTS = 2 ** 14;

/** More elements are not written as JSON: their text would take too much memory. */
const MAX_ELEMENTS = 2 ** 23;

/** Far more than the worker lets JSON take. */
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 1024 };

/** How long the thread stays when nobody needs it: its heap keeps the memory of the longest JSON. */
const IDLE_MS = 10_000;

/**
 * @typedef {object} Task
 * @property {'read' | 'write'} action
 * @property {string} kind
 * @property {any[]} args
 * @property {ArrayBuffer[]} transfer
 * @property {{ aborted: boolean }} signal
 * @property {(value: any) => void} resolve
 * @property {(error: ServeError) => void} reject
 */

/** What the thread answers. @typedef {{ value: any } | { error: { kind: any, message: string, param?: string, code?: string } }} Outcome */

export class JsonThread {
  #bodies;
  #idleMs;
  /** @type {Worker | undefined} */
  #worker;
  /** @type {Task[]} */
  #waiting = [];
  /** @type {Task | undefined} */
  #current;
  /** @type {NodeJS.Timeout | undefined} */
  #idle;

  /**
   * @param {import('../byte-budget.js').ByteBudget} bodies counts what the thread holds, also when a caller has gone
   * @param {number} [idleMs] after which the thread ends if nobody needs it
   */
  constructor(bodies, idleMs = IDLE_MS) {
    this.#bodies = bodies;
    this.#idleMs = idleMs;
  }

  /** Whether there is a thread now. */
  get isRunning() {
    return this.#worker !== undefined;
  }

  /**
   * Reads the JSON of a body.
   * @param {string} kind of {@link READERS}
   * @param {Buffer} bytes a body in memory of its own: long ones are moved to the thread and cannot be used afterwards
   * @param {Task['signal']} signal of a caller that has gone
   * @param {string} [headLength] bytes of the JSON before raw bytes
   * @returns {Promise<any>}
   * @throws {ServeError}
   */
  async read(kind, bytes, signal, headLength) {
    const length = headLength === undefined ? bytes.length : Number(headLength);
    if (!(length > SHORT_BYTES)) return READERS[kind](bytes, headLength);
    const body = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
    return this.#holding(bytes.length, { action: 'read', kind, args: [body, headLength], transfer: [/** @type {ArrayBuffer} */ (bytes.buffer)], signal });
  }

  /**
   * Writes JSON.
   * @param {string} kind of {@link WRITERS}
   * @param {any[]} args of the writer; they are copied
   * @param {number} elements that it writes
   * @param {Task['signal']} signal of a caller that has gone
   * @returns {Promise<string | Buffer>} a text, or its UTF-8
   * @throws {ServeError}
   */
  async write(kind, args, elements, signal) {
    if (elements <= FEW_ELEMENTS) return WRITERS[kind](...args);
    if (elements > MAX_ELEMENTS) throw invalid(`the response has ${amount(elements, 'element')}, expected at most ${MAX_ELEMENTS} in JSON; ask for raw bytes`);
    /** @type {Uint8Array} */
    const bytes = await this.#run({ action: 'write', kind, args, transfer: [], signal });
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /**
   * @param {number} bytes that wait for the thread, beside those of the requests: their values are larger than the text
   * @param {Omit<Task, 'resolve' | 'reject'>} task
   */
  async #holding(bytes, task) {
    if (!this.#bodies.take(bytes)) throw noRoom();
    try {
      return await this.#run(task);
    } finally {
      this.#bodies.give(bytes);
    }
  }

  /** @param {Omit<Task, 'resolve' | 'reject'>} task */
  #run(task) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...task, resolve, reject });
      this.#next();
    });
  }

  /**
   * One task at a time: if it ends the thread, the others are not lost.
   * @returns {void}
   */
  #next() {
    if (this.#current !== undefined) return;
    clearTimeout(this.#idle);
    const task = this.#waiting.shift();
    if (task === undefined) {
      this.#idle = setTimeout(() => void this.close(), this.#idleMs).unref();
      return;
    }
    if (task.signal.aborted) {
      task.reject(new ServeError('canceled', 'the client is gone'));
      return this.#next();
    }
    this.#current = task;
    this.#worker ??= this.#start();
    this.#worker.postMessage({ action: task.action, kind: task.kind, args: task.args }, task.transfer);
  }

  #start() {
    const worker = new Worker(new URL('worker.js', import.meta.url), { name: 'json', resourceLimits: RESOURCE_LIMITS, execArgv: [] });
    // Requests keep the process alive, not the thread.
    worker.unref();
    worker.on('message', (/** @type {Outcome} */ outcome) => {
      if ('value' in outcome) this.#settle((task) => task.resolve(outcome.value));
      else this.#settle((task) => task.reject(new ServeError(outcome.error.kind, outcome.error.message, outcome.error)));
    });
    worker.on('error', (error) => {
      this.#worker = undefined;
      this.#settle((task) => task.reject(toServeError(error)));
    });
    return worker;
  }

  /** @param {(task: Task) => void} end */
  #settle(end) {
    const task = this.#current;
    this.#current = undefined;
    if (task !== undefined) end(task);
    this.#next();
  }

  /** Ends the thread, when no request needs it any more. */
  async close() {
    clearTimeout(this.#idle);
    const worker = this.#worker;
    this.#worker = undefined;
    await worker?.terminate();
  }
}

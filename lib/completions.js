'use strict';

/** Native requests as promises. */

const { setImmediate } = require('node:timers');

const { Promise } = globalThis;

/**
 * Who is told of the end of a request: `end` with an empty code for a success, `reject` if somebody gives the request up.
 *
 * @typedef {object} Listener
 * @property {(code: string, message: string | undefined, details: any) => void} end
 * @property {(error: Error) => void} [reject]
 */

/**
 * Makes errors from a code, a message and the JSON of unsupported nodes.
 *
 * @typedef {(code: string, message: string, details?: string) => import('./internal.js').CodedError} ErrorOf
 */

/**
 * The requests of an environment (main thread or worker). The native side reports their ends.
 *
 * Test runners and bundlers evaluate this package several times in one environment, also in realms of their own, while
 * there is one native binary: all copies share one object of this class. It makes nothing that a caller gets to see: that
 * is up to the listeners, which belong to the copy that the caller uses.
 */
class Requests {
  /** The native side of this environment. */
  environment;

  #lastId;
  /** @type {Map<number, Listener>} */
  #listeners = new Map();
  /** Number of completions whose task has not run yet. */
  #waiting = 0;

  /**
   * @param {Pick<import('./internal.js').Binding, 'initialize'>} binding
   * @param {number} [lastId] the id before the first one
   */
  constructor(binding, lastId = 0) {
    this.#lastId = lastId;
    this.environment = binding.initialize((ids, codes, messages, details) => {
      // One task per completion: reactions to one promise run before the next one is settled and its data are written.
      // Completions that already wait for a task go first: several reports can arrive in one turn of the event loop.
      const first = this.#waiting === 0 ? 1 : 0;
      for (let index = first; index < ids.length; index++) {
        this.#waiting += 1;
        setImmediate(() => {
          this.#waiting -= 1;
          this.#tell(ids[index], codes[index] ?? '', messages[index], details[index]);
        });
      }
      // Last: if it throws, the others have their tasks.
      if (first === 1 && ids.length > 0) {
        this.#tell(ids[0], codes[0] ?? '', messages[0], details[0]);
      }
    });
  }

  /** @returns {number} an id that no other pending request of this environment has */
  nextId() {
    do {
      // Native ids have 32 bits, which a long-running server may exhaust while its oldest requests are pending.
      this.#lastId = (this.#lastId + 1) >>> 0;
    } while (this.#listeners.has(this.#lastId));
    return this.#lastId;
  }

  /**
   * Registers a request right after the native call that has begun it: it never ends in between.
   *
   * @param {number} id
   * @param {Listener} listener
   */
  add(id, listener) {
    this.#listeners.set(id, listener);
  }

  /**
   * Removes a request. Its id is free from then on.
   *
   * @param {number} id
   * @returns {Listener | undefined}
   */
  take(id) {
    const listener = this.#listeners.get(id);
    this.#listeners.delete(id);
    return listener;
  }

  /**
   * @param {number} id
   * @param {string} code
   * @param {string | undefined} message
   * @param {any} details
   */
  #tell(id, code, message, details) {
    // The native side also reports requests that failed inside their calls, which nobody has registered.
    this.take(id)?.end(code, message, details);
  }
}

/** Settles the promise of a request. */
class Outcome {
  #errorOf;
  #finish;
  #resolve;

  /**
   * @param {ErrorOf} errorOf
   * @param {(error: Error | undefined, made: any) => unknown} finish
   * @param {(value: any) => void} resolve
   * @param {(error: unknown) => void} reject
   */
  constructor(errorOf, finish, resolve, reject) {
    this.#errorOf = errorOf;
    this.#finish = finish;
    this.#resolve = resolve;
    this.reject = reject;
  }

  /** @type {Listener['end']} */
  end(code, message = '', details = undefined) {
    try {
      this.#resolve(this.#finish(code === '' ? undefined : this.#errorOf(code, message, details), details));
    } catch (error) {
      this.reject(error);
    }
  }
}

/** The requests that one copy of this package makes; its promises and errors are those of the copy's realm. */
class Completions {
  #requests;
  #errorOf;

  /**
   * @param {Requests} requests
   * @param {ErrorOf} errorOf
   */
  constructor(requests, errorOf) {
    this.#requests = requests;
    this.#errorOf = errorOf;
  }

  /** @returns {number} an id for a native request */
  nextId() {
    return this.#requests.nextId();
  }

  /**
   * Returns the outcome of work that a native call has begun. Must be called right after that call.
   *
   * @template T
   * @template {unknown[]} [Made=unknown[]]
   * @param {number} id
   * @param {(error: Error | undefined, made: Made) => T} finish called on completion with the failure or undefined, and
   *   the results; its return value or exception settles the promise
   * @returns {Promise<T>}
   */
  outcome(id, finish) {
    return new Promise((resolve, reject) => this.#requests.add(id, new Outcome(this.#errorOf, finish, resolve, reject)));
  }

  /**
   * Calls `tell` with the error when the event that a native call watches for happens, or can no longer happen.
   *
   * @param {number} id
   * @param {(error: import('./internal.js').CodedError) => void} tell must not keep alive the object whose end stops
   *   the watch
   */
  watch(id, tell) {
    this.#requests.add(id, { end: (code, message = '') => tell(this.#errorOf(code, message)) });
  }

  /**
   * Rejects at once; the completion, which is still to come, has no effect.
   *
   * @param {number} id
   * @param {Error} error
   */
  abandon(id, error) {
    const listener = this.#requests.take(id);
    if (listener !== undefined) {
      // Until then, no other request may have the id: it would be told of this end.
      this.#requests.add(id, { end: () => {} });
      listener.reject?.(error);
    }
  }
}

module.exports = { Completions, Requests };

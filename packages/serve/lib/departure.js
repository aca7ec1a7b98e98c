// What says that a caller is gone. It has as much of an AbortSignal as is needed here: to make one of those, to listen to it and to
// abort it, which makes an error with a stack, takes longer than to read a short request.

/**
 * An AbortSignal, or a Departure.
 * @typedef {object} Signal
 * @property {boolean} aborted
 * @property {(type: 'abort', listener: () => void) => void} addEventListener
 * @property {(type: 'abort', listener: () => void) => void} removeEventListener
 */

/** @implements {Signal} */
export class Departure {
  aborted = false;
  /** @type {Set<() => void>} */
  #listeners = new Set();

  /** @type {Signal['addEventListener']} */
  addEventListener(_, listener) {
    this.#listeners.add(listener);
  }

  /** @type {Signal['removeEventListener']} */
  removeEventListener(_, listener) {
    this.#listeners.delete(listener);
  }

  /** The caller is gone. */
  say() {
    this.aborted = true;
    for (const listener of this.#listeners) listener();
  }
}

/**
 * Calls a function when a caller is gone: at once if it is already.
 * @param {Signal | undefined} signal
 * @param {() => void} listener
 * @returns {() => void} listens no more
 */
export function whenGone(signal, listener) {
  if (signal?.aborted) listener();
  signal?.addEventListener('abort', listener);
  return () => signal?.removeEventListener('abort', listener);
}

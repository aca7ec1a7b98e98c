// Fair shares: which models compute now. The threads of the CPU are shared by all, and a computation that has begun is not
// interrupted. So long ones leave room: one at a time fewer than there are places.

import { availableParallelism } from 'node:os';
import { recent } from './recent.js';

/** Longer computations than this count as long, in milliseconds. */
const LONG_MS = 50;

/** Places in which models compute. */
export class Places {
  #free;
  #longFree;
  /** Who waits, in the order of arrival. @type {{ isLong: boolean, begin: () => void }[]} */
  #waiting = [];

  /** @param {number} [count] of computations at the same time */
  constructor(count = Math.max(2, availableParallelism())) {
    this.#free = count;
    this.#longFree = count - 1;
  }

  /**
   * Waits for a place.
   * @param {boolean} isLong
   * @returns {Promise<() => void>} leaves it
   */
  async enter(isLong) {
    if (this.#free === 0 || (isLong && this.#longFree === 0)) {
      await new Promise((resolve) => this.#waiting.push({ isLong, begin: () => resolve(undefined) }));
    } else this.#occupy(isLong, -1);
    return () => {
      this.#occupy(isLong, 1);
      this.#admit();
    };
  }

  /**
   * @param {boolean} isLong
   * @param {number} change
   */
  #occupy(isLong, change) {
    this.#free += change;
    if (isLong) this.#longFree += change;
  }

  #admit() {
    const index = this.#free === 0 ? -1 : this.#waiting.findIndex(({ isLong }) => !isLong || this.#longFree > 0);
    if (index === -1) return;
    const [{ isLong, begin }] = this.#waiting.splice(index, 1);
    this.#occupy(isLong, -1);
    begin();
  }
}

/** The turns of one model: it knows how long its computations are. */
export class Turns {
  #places;
  /** Of late; unknown until the first one has ended, which can be long. @type {number | undefined} */
  #ms;

  /** @param {Places} places shared by all models */
  constructor(places) {
    this.#places = places;
  }

  /**
   * Computes when there is a place.
   * @template T
   * @param {() => Promise<T>} run
   * @returns {Promise<{ result: T, start: number, ms: number }>} with the time of its own
   */
  async take(run) {
    const leave = await this.#places.enter(this.#ms === undefined || this.#ms > LONG_MS);
    const start = performance.now();
    try {
      const result = await run();
      const ms = performance.now() - start;
      this.#ms = recent(this.#ms, ms);
      return { result, start, ms };
    } finally {
      leave();
    }
  }
}

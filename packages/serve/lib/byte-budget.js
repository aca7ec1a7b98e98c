// Bytes that may be held at one time: of bodies that arrive and are computed, of answers that are not read yet.

import { ServeError } from './errors.js';

/** What arrives more slowly than these bytes in this time gives way where there is no room. */
const PACE_BYTES = 2 ** 16;
const PACE_MS = 2000;

/** How often it is looked for what arrives slowly: there can be many thousands. */
const LOOK_MS = 100;

/** Something that arrives. */
class Arrival {
  /** Bytes since then. */
  #bytes = 0;
  #since = performance.now();
  giveUp;

  /** @param {() => void} giveUp */
  constructor(giveUp) {
    this.giveUp = giveUp;
  }

  /** @param {number} bytes that came over the network */
  came(bytes) {
    this.#bytes += bytes;
    if (this.#bytes < PACE_BYTES) return;
    this.#bytes = 0;
    this.#since = performance.now();
  }

  /** @param {number} now */
  isSlow(now) {
    return now - this.#since > PACE_MS;
  }
}

/** The error for a request body that the budget has no room for. */
export const noRoom = () => new ServeError('overloaded', 'the server holds too many request bodies', { retryAfterMs: 1000 });

/** Counts bytes against a limit that all requests of all protocols share. */
export class ByteBudget {
  #limit;
  #held = 0;
  /** @type {Set<Arrival>} */
  #arrivals = new Set();
  #looked = -Infinity;

  /** @param {number} limit in bytes */
  constructor(limit) {
    this.#limit = limit;
  }

  /** Bytes that were taken and not given back. */
  get held() {
    return this.#held;
  }

  /**
   * Whether there is room for bytes. A request that is larger than the whole limit never has room.
   * @param {number} bytes
   */
  hasRoom(bytes) {
    if (this.#held + bytes > this.#limit) this.#endSlow();
    return this.#held + bytes <= this.#limit;
  }

  /**
   * Takes bytes, if there is room for them.
   * @param {number} bytes
   * @returns {boolean} whether they were taken: then {@link give} must be called with the same number, once
   */
  take(bytes) {
    if (!this.hasRoom(bytes)) return false;
    this.#held += bytes;
    return true;
  }

  /**
   * Something begins to arrive. Callers who send slowly must not keep others out: where there is no room, they lose theirs.
   * @param {() => void} giveUp gives the bytes back at once, and wants no more
   * @returns {Arrival} for {@link arrived}
   */
  arrive(giveUp) {
    const arrival = new Arrival(giveUp);
    this.#arrivals.add(arrival);
    return arrival;
  }

  /** @param {Arrival} arrival that is complete, or over */
  arrived(arrival) {
    this.#arrivals.delete(arrival);
  }

  #endSlow() {
    const now = performance.now();
    if (now - this.#looked < LOOK_MS) return;
    this.#looked = now;
    for (const arrival of this.#arrivals) {
      if (!arrival.isSlow(now)) continue;
      this.#arrivals.delete(arrival);
      arrival.giveUp();
    }
  }

  /**
   * Takes bytes even where there is no room: what must be sent, such as errors.
   * @param {number} bytes
   */
  force(bytes) {
    this.#held += bytes;
  }

  /** @param {number} bytes that {@link take} or {@link force} took */
  give(bytes) {
    this.#held -= bytes;
  }
}

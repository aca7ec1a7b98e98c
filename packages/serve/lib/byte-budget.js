// Bytes that may be held at one time: of bodies that arrive and are computed, of answers that are not read yet.

/** Counts bytes against a limit that all requests of all protocols share. */
export class ByteBudget {
  #limit;
  #held = 0;

  /** @param {number} limit in bytes */
  constructor(limit) {
    this.#limit = limit;
  }

  /** Bytes that were taken and not given back. */
  get held() {
    return this.#held;
  }

  /**
   * Takes bytes, if there is room for them. A request that is larger than the whole limit never has room.
   * @param {number} bytes
   * @returns {boolean} whether they were taken: then {@link give} must be called with the same number, once
   */
  take(bytes) {
    if (this.#held + bytes > this.#limit) return false;
    this.#held += bytes;
    return true;
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

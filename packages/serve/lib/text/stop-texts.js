// Texts that end an answer.

/**
 * Passes pieces of a text on until one of the stop texts appears, which is left out. What may be the beginning of a stop text
 * is held back.
 */
export class StopTexts {
  #texts;
  #held = '';
  /** Whether a stop text has appeared. */
  isStopped = false;

  /** @param {readonly string[]} texts none is empty */
  constructor(texts) {
    this.#texts = texts;
  }

  /**
   * @param {string} piece
   * @returns {string} what can be passed on
   */
  push(piece) {
    if (this.isStopped) return '';
    const text = this.#held + piece;
    const places = this.#texts.map((stop) => text.indexOf(stop)).filter((place) => place !== -1);
    this.isStopped = places.length > 0;
    const end = this.isStopped ? Math.min(...places) : text.length - this.#beginning(text);
    this.#held = this.isStopped ? '' : text.slice(end);
    return text.slice(0, end);
  }

  /**
   * How many of the last characters are the beginning of a stop text.
   * @param {string} text
   */
  #beginning(text) {
    const lengths = this.#texts.map((stop) => {
      let length = Math.min(stop.length - 1, text.length);
      while (length > 0 && !text.endsWith(stop.slice(0, length))) length -= 1;
      return length;
    });
    return Math.max(0, ...lengths);
  }

  /** What was held back, when no more follows. */
  end() {
    const rest = this.#held;
    this.#held = '';
    return rest;
  }
}

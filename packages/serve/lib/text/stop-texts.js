// Texts that end an answer.

/** Finds one text in another that comes in pieces: the search of Knuth, Morris and Pratt looks at each character once. */
class Search {
  #text;
  /** For each number of characters that match, the most that still match when the next one does not. @type {number[]} */
  #shorter = [0];
  /** How many of the last characters are the beginning of the text. */
  matching = 0;

  /** @param {string} text not empty */
  constructor(text) {
    this.#text = text;
    for (let i = 1, length = 0; i < text.length; i++) {
      while (length > 0 && text[i] !== text[length]) length = this.#shorter[length - 1];
      if (text[i] === text[length]) length += 1;
      this.#shorter.push(length);
    }
  }

  get length() {
    return this.#text.length;
  }

  /** The beginning of the text that the last characters are. */
  get beginning() {
    return this.#text.slice(0, this.matching);
  }

  /**
   * @param {string} character
   * @returns {boolean} whether the whole text has appeared with it; no more characters may follow then
   */
  push(character) {
    while (this.matching > 0 && character !== this.#text[this.matching]) this.matching = this.#shorter[this.matching - 1];
    if (character === this.#text[this.matching]) this.matching += 1;
    return this.matching === this.#text.length;
  }
}

/**
 * Passes pieces of a text on until one of the stop texts appears, which is left out. What may be the beginning of a stop text
 * is held back.
 */
export class StopTexts {
  #searches;
  /** Whether a stop text has appeared. */
  isStopped = false;

  /** @param {readonly string[]} texts none is empty */
  constructor(texts) {
    this.#searches = texts.map((text) => new Search(text));
  }

  /** What is held back: the longest beginning of a stop text. */
  get #held() {
    return this.#searches.reduce((longest, search) => (search.matching > longest.length ? search.beginning : longest), '');
  }

  /**
   * @param {string} piece
   * @returns {string} what can be passed on
   */
  push(piece) {
    if (this.isStopped) return '';
    const before = this.#held;
    for (let i = 0; i < piece.length; i++) {
      const found = this.#searches.filter((search) => search.push(piece[i]));
      if (found.length === 0) continue;
      this.isStopped = true;
      return passed(before, piece, before.length + i + 1 - Math.max(...found.map(({ length }) => length)));
    }
    return passed(before, piece, before.length + piece.length - this.#held.length);
  }

  /** What was held back, when no more follows. */
  end() {
    return this.isStopped ? '' : this.#held;
  }
}

/**
 * The first characters of what was held back and a piece behind it.
 * @param {string} held
 * @param {string} piece
 * @param {number} length
 */
const passed = (held, piece, length) => (length <= held.length ? held.slice(0, length) : held + piece.slice(0, length - held.length));

// Text from tokens that come one by one.

/** What a decoder writes for bytes that are no character, or not yet. */
const INCOMPLETE = '\ufffd';

/**
 * Decodes tokens as they come. A character can be several tokens, and what a token adds can depend on the one before it, as
 * spaces do: so a text is decoded from the last piece on, and a piece is given only when it ends with a whole character.
 */
export class TextStream {
  #decode;
  /** @type {number[]} */
  #ids = [];
  /** How many tokens the last piece is of. */
  #given = 0;

  /** @param {(ids: number[]) => string} decode takes at least one token */
  constructor(decode) {
    this.#decode = decode;
  }

  /** The text of the tokens behind the last piece. */
  #rest() {
    const before = this.#given === 0 ? '' : this.#decode(this.#ids.slice(0, this.#given));
    return this.#ids.length === 0 ? '' : this.#decode(this.#ids).slice(before.length);
  }

  /**
   * @param {number} id
   * @returns {string} the text that is complete with this token; empty if there is none
   */
  push(id) {
    this.#ids.push(id);
    const piece = this.#rest();
    if (piece === '' || piece.endsWith(INCOMPLETE)) return '';
    this.#ids.splice(0, this.#given);
    this.#given = this.#ids.length;
    return piece;
  }

  /** What is left when no token follows: bytes that never became a character. */
  end() {
    return this.#rest();
  }
}

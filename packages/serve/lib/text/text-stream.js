// Text from tokens that come one by one.

/** What a decoder writes for bytes that are no character, or not yet. */
const INCOMPLETE = '\ufffd';

/** Tokens that are decoded again with the next one: at most so many, of which so many stay. The bytes of a character are 4 at most. */
const [MOST, KEPT] = [8, 4];

/**
 * Decodes tokens as they come. A character can be several tokens, and a token parts of two; what a token adds can depend on the one
 * before it, as spaces do. So each token is decoded behind some that came before, and what they have in common is left out. Only the
 * last character can still change, if it is incomplete: it is held back. All characters before it have what they will ever have, also
 * where they are no valid UTF-8.
 */
export class TextStream {
  #decode;
  /** The last tokens. @type {number[]} */
  #ids = [];
  /** Their text. */
  #text = '';
  /** How much of it was given: all but an incomplete character. */
  #given = 0;

  /** @param {(ids: number[]) => string} decode takes at least one token */
  constructor(decode) {
    this.#decode = decode;
  }

  /**
   * @param {number} id
   * @returns {string} the text that is complete with this token; empty if there is none
   */
  push(id) {
    const before = this.#text;
    this.#ids.push(id);
    this.#text = this.#decode([...this.#ids]);
    // A token without a text, such as a mark, is no neighbor of the next one. Some decoders leave out a space that is the first token.
    if (this.#text === before && this.#decode([id, id]) === '') this.#ids.pop();
    const isWhole = !this.#text.endsWith(INCOMPLETE);
    const piece = this.#text.slice(this.#given, this.#end(isWhole));
    this.#given += piece.length;
    const [most, kept] = isWhole ? [1, 1] : [MOST, KEPT];
    if (this.#ids.length > most) {
      this.#ids = this.#ids.slice(-kept);
      this.#text = this.#decode([...this.#ids]);
      this.#given = this.#end(isWhole);
    }
    return piece;
  }

  /** @param {boolean} isWhole whether the text ends with a character that cannot change */
  #end(isWhole) {
    return isWhole ? this.#text.length : this.#text.length - INCOMPLETE.length;
  }

  /** What is left when no token follows: bytes that never became a character. */
  end() {
    return this.#text.slice(this.#given);
  }
}

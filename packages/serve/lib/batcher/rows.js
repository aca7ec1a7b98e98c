// The texts that are being generated: each step computes the next token of each. `Together` computes all of them at once,
// `InTurns` one after the other.

/**
 * @typedef {import('../models/decoder.js').Cache} Cache
 * @typedef {import('../models/decoder.js').Decoder} Decoder
 */

/**
 * Computes when it is the model's turn.
 * @typedef {<T>(compute: () => Promise<T>) => Promise<T>} Take
 */

/**
 * What a step makes of a text.
 * @template T
 * @typedef {{ text: T, logits: ArrayLike<number> } | { text: T, error: unknown }} Outcome
 */

/**
 * Each text has a cache of its own.
 * @template T
 */
export class InTurns {
  #decoder;
  /** @type {Map<T, Cache>} */
  #caches = new Map();

  /** @param {Decoder} decoder */
  constructor(decoder) {
    this.#decoder = decoder;
  }

  /** Texts. */
  get length() {
    return this.#caches.size;
  }

  /**
   * @param {T} text
   * @param {Cache} cache of this text only
   */
  add(text, cache) {
    this.#caches.set(text, cache);
  }

  /** @param {T} text */
  remove(text) {
    return this.#caches.delete(text);
  }

  /**
   * @param {(text: T) => number} idOf the last token of a text, which is not in the cache yet
   * @param {Take} take
   * @returns {AsyncGenerator<Outcome<T>>} nothing for a text that was removed meanwhile
   */
  async *step(idOf, take) {
    for (const [text, cache] of [...this.#caches]) {
      if (!this.#caches.has(text)) continue;
      try {
        const step = await take(() => this.#decoder.run([[idOf(text)]], cache));
        if (!this.#caches.has(text)) continue;
        this.#caches.set(text, step.cache);
        yield { text, logits: step.logits[0] };
      } catch (error) {
        yield { text, error };
      }
    }
  }
}

/** A cache with more padding than this share, and tokens, is copied. */
const [PADDING, TOKENS] = [0.5, 64];

/**
 * The texts are rows of one cache. A row whose text has ended stays until others join, or until half of the rows have no
 * text: only then is the cache copied in JavaScript.
 * @template T
 */
export class Together {
  #decoder;
  #counts;
  /** @type {(T | null)[]} */
  #rows = [];
  /** @type {Cache | null} */
  #cache = null;
  /** Caches of texts that join with the next step. @type {Map<T, Cache>} */
  #joining = new Map();
  /** @type {Set<T>} */
  #texts = new Set();

  /**
   * @param {Decoder} decoder
   * @param {readonly number[]} counts numbers of rows to compute, smallest first
   */
  constructor(decoder, counts) {
    this.#decoder = decoder;
    this.#counts = counts;
  }

  /** Texts. */
  get length() {
    return this.#texts.size;
  }

  /**
   * @param {T} text
   * @param {Cache} cache of this text only
   */
  add(text, cache) {
    this.#texts.add(text);
    this.#joining.set(text, cache);
  }

  /** @param {T} text */
  remove(text) {
    this.#joining.delete(text);
    return this.#texts.delete(text);
  }

  /** Whether a text is still there. @param {T | null} text @returns {text is T} */
  #has(text) {
    return text !== null && this.#texts.has(text);
  }

  /** Whether copying the cache costs less than computing its empty rows and its padding. */
  #isWasteful() {
    if (this.#cache === null) return false;
    const { lengths, size } = this.#cache;
    if (this.#rows.length > 1 && this.#texts.size * 2 <= this.#rows.length) return true;
    const longest = Math.max(...this.#rows.map((text, row) => (this.#has(text) ? lengths[row] : 0)));
    return size - longest > Math.max(TOKENS, PADDING * size);
  }

  /** Makes a new cache of the texts that are there and those that join. */
  async #merge() {
    const joining = [...this.#joining];
    this.#joining.clear();
    const cache = this.#cache;
    const staying = this.#rows.flatMap((text, row) => (cache !== null && this.#has(text) ? [{ text, from: { cache, row } }] : []));
    const all = [...staying, ...joining.map(([text, own]) => ({ text, from: { cache: own, row: 0 } }))];
    const count = this.#counts.find((rows) => rows >= all.length) ?? all.length;
    const padding = Array(count - all.length).fill(null);
    this.#cache = await this.#decoder.merge([...all.map(({ from }) => from), ...padding]);
    this.#rows = [...all.map(({ text }) => text), ...padding];
  }

  /**
   * @param {(text: T) => number} idOf the last token of a text, which is not in the cache yet
   * @param {Take} take
   * @returns {AsyncGenerator<Outcome<T>>} nothing for a text that was removed meanwhile
   */
  async *step(idOf, take) {
    const before = [...this.#texts];
    const rows = [];
    let logits;
    try {
      if (this.#joining.size > 0 || this.#isWasteful()) await this.#merge();
      rows.push(...this.#rows.map((text) => (this.#has(text) ? text : null)));
      if (rows.every((text) => text === null)) return;
      const cache = /** @type {Cache} */ (this.#cache);
      const ids = rows.map((text) => (text === null ? null : [idOf(text)]));
      const step = await take(() => this.#decoder.run(ids, cache));
      this.#cache = step.cache;
      logits = step.logits;
    } catch (error) {
      for (const text of before) if (this.#has(text)) yield { text, error };
      return;
    }
    for (const [row, text] of rows.entries()) if (this.#has(text)) yield { text, logits: logits[row] };
    if (this.#texts.size === 0) [this.#rows, this.#cache] = [[], null];
  }
}

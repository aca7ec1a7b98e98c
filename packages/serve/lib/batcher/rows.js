// The texts that are being generated: each step computes the next token of each. `Together` computes all of them at once,
// `InTurns` one after the other.

import { roomFor } from '../models/decoder.js';

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
  /** The cache with which a step is computed. @type {Cache | null} */
  #used = null;

  /** @param {Decoder} decoder */
  constructor(decoder) {
    this.#decoder = decoder;
  }

  /**
   * The tokens for which caches have room, for texts of these lengths.
   * @param {readonly number[]} lengths
   */
  tokensOf(lengths) {
    return lengths.reduce((sum, length) => sum + length, 0);
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
    const cache = this.#caches.get(text);
    if (cache !== undefined && cache !== this.#used) this.#decoder.release(cache);
    this.#caches.delete(text);
  }

  /**
   * @param {(text: T) => number} idOf the last token of a text, which is not in the cache yet
   * @param {Take} take
   * @returns {AsyncGenerator<Outcome<T>>} nothing for a text that was removed meanwhile
   */
  async *step(idOf, take) {
    for (const [text, cache] of [...this.#caches]) {
      if (!this.#caches.has(text)) continue;
      this.#used = cache;
      try {
        const step = await take(() => this.#decoder.read([idOf(text)], cache));
        this.#decoder.release(cache);
        if (!this.#caches.has(text)) {
          this.#decoder.release(step.cache);
          continue;
        }
        this.#caches.set(text, step.cache);
        yield { text, logits: step.logits[0] };
      } catch (error) {
        yield { text, error };
      } finally {
        this.#used = null;
      }
    }
  }
}

/**
 * A cache is copied if its texts need less than this part of its room, or if no more than this part of its rows has texts. With
 * 135 M parameters on 2 cores, a step of 8 rows takes 40 ms, of 4 rows 35 ms, of 2 rows 26 ms, and copying takes as long.
 */
const [USED, FEW] = [0.5, 0.25];

/**
 * The texts are rows of one cache. A row whose text has ended stays until others join, or until few rows have
 * texts, or there is no room for their next tokens: only then is the cache copied in JavaScript.
 * @template T
 */
export class Together {
  #decoder;
  #counts;
  #most;
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
   * @param {number} most tokens that the model can read
   */
  constructor(decoder, counts, most) {
    this.#decoder = decoder;
    this.#counts = counts;
    this.#most = most;
  }

  /**
   * The tokens for which the cache has room, for texts of these lengths: each row has as many as the longest.
   * @param {readonly number[]} lengths
   */
  tokensOf(lengths) {
    return this.#rowsFor(lengths.length) * roomFor(Math.max(...lengths), this.#most);
  }

  /**
   * The number of rows that is computed for texts.
   * @param {number} texts
   */
  #rowsFor(texts) {
    return this.#counts.find((rows) => rows >= texts) ?? texts;
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
    this.#decoder.release(this.#joining.get(text) ?? null);
    this.#joining.delete(text);
    this.#texts.delete(text);
  }

  /** Whether a text is still there. @param {T | null} text @returns {text is T} */
  #has(text) {
    return text !== null && this.#texts.has(text);
  }

  /** Whether the texts need another cache: there is no room for further tokens, or too much. */
  #isUnfit() {
    if (this.#cache === null) return false;
    const { lengths, size, spare } = this.#cache;
    if (this.#rows.length > 1 && this.#texts.size <= FEW * this.#rows.length) return true;
    const longest = Math.max(...this.#rows.map((text, row) => (this.#has(text) ? lengths[row] : 0)));
    return spare !== null && (longest === size || roomFor(longest, this.#most) < USED * size);
  }

  /** Makes a new cache of the texts that are there and those that join. */
  async #merge() {
    const joining = [...this.#joining];
    this.#joining.clear();
    const cache = this.#cache;
    const staying = this.#rows.flatMap((text, row) => (cache !== null && this.#has(text) ? [{ text, from: { cache, row } }] : []));
    const all = [...staying, ...joining.map(([text, own]) => ({ text, from: { cache: own, row: 0 } }))];
    const padding = Array(this.#rowsFor(all.length) - all.length).fill(null);
    const isAlone = all.length === 1 && cache === null;
    this.#cache = isAlone ? joining[0][1] : await this.#decoder.merge([...all.map(({ from }) => from), ...padding], this.#most);
    this.#rows = [...all.map(({ text }) => text), ...padding];
    if (isAlone) return;
    for (const { from } of all) this.#decoder.release(from.cache);
  }

  #clear() {
    this.#decoder.release(this.#cache);
    [this.#rows, this.#cache] = [[], null];
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
      if (this.#joining.size > 0 || this.#isUnfit()) await this.#merge();
      rows.push(...this.#rows.map((text) => (this.#has(text) ? text : null)));
      if (rows.every((text) => text === null)) return this.#clear();
      const cache = /** @type {Cache} */ (this.#cache);
      const ids = rows.map((text) => (text === null ? null : idOf(text)));
      const [first] = ids;
      const isAlone = ids.length === 1 && first !== null;
      const step = await take(() => (isAlone ? this.#decoder.read([first], cache) : this.#decoder.step(ids, cache)));
      if (isAlone) this.#decoder.release(cache);
      this.#cache = step.cache;
      logits = step.logits;
    } catch (error) {
      for (const text of before) if (this.#has(text)) yield { text, error };
      return this.#clear();
    }
    for (const [row, text] of rows.entries()) if (this.#has(text)) yield { text, logits: logits[row] };
    if (this.#texts.size === 0) this.#clear();
  }
}

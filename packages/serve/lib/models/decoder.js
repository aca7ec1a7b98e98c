// Runs a language model with a growing cache, for one text or for several at once.

import { setImmediate as others } from 'node:timers/promises';
import { batchInputs, batchLogits, emptyCache, nextCache } from 'webnn-node-cli/lib/decoder.mjs';
import { feedsOf } from 'webnn-node-cli/lib/elements.mjs';

/**
 * Keys and values of several texts. A text is a row, which has room for `size` tokens and is padded at its end.
 * @typedef {object} Cache
 * @property {Record<string, any>} feeds by name of the input
 * @property {readonly number[]} lengths tokens of each row
 * @property {number} size
 */

/** @typedef {{ logits: ArrayLike<number>[], cache: Cache }} Step scores for the place behind the last token, by row */

/** A row without a text: one token that nobody looks at. */
const NO_TEXT = { length: 0, id: 0 };

/** How long copying may hold the event loop, in milliseconds. */
const HOLD_MS = 5;

export class Decoder {
  #model;
  #described;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {import('webnn-node-cli/lib/decoder.mjs').Decoder} described
   */
  constructor(model, described) {
    this.#model = model;
    this.#described = described;
  }

  /** The cache of a text that has not begun. @returns {Cache} */
  get empty() {
    return { feeds: feedsOf(emptyCache(this.#described)), lengths: [0], size: 0 };
  }

  /**
   * Computes: reads the next tokens of each row, as many of each. Results that are fed back are never read.
   * @param {readonly (readonly number[] | null)[]} rows null for rows without a text
   * @param {Cache} cache
   * @returns {Promise<Step>}
   */
  async run(rows, cache) {
    const lengths = cache.lengths.map((length, row) => (rows[row] === null ? NO_TEXT.length : length));
    const batch = { rows: rows.map((ids) => ids ?? [NO_TEXT.id]), lengths, size: cache.size };
    const results = await this.#model.run({ ...feedsOf(batchInputs(this.#described, batch)), ...cache.feeds });
    const count = batch.rows[0].length;
    const next = { feeds: nextCache(this.#described, results), lengths: lengths.map((length) => length + count), size: cache.size + count };
    return { logits: batchLogits(results.logits), cache: next };
  }

  /**
   * Copies rows into a cache without more padding than they need.
   * @param {readonly ({ cache: Cache, row: number } | null)[]} rows null for rows without a text
   * @returns {Promise<Cache>}
   */
  async merge(rows) {
    const [first] = rows;
    if (rows.length === 1 && first && first.cache.lengths.length === 1 && first.cache.lengths[0] === first.cache.size) return first.cache;
    const lengths = rows.map((from) => (from === null ? NO_TEXT.length : from.cache.lengths[from.row]));
    const size = Math.max(...lengths);
    /** @type {Cache['feeds']} */
    const feeds = {};
    let since = performance.now();
    for (const { name, heads, size: width, dataType } of this.#described.cache) {
      /** @type {any} */
      let data;
      for (const [row, from] of rows.entries()) {
        if (from === null) continue;
        const source = from.cache.feeds[name].data;
        data ??= new source.constructor(rows.length * heads * size * width);
        for (let head = 0; head < heads; head++) {
          const at = (from.row * heads + head) * from.cache.size * width;
          data.set(source.subarray(at, at + lengths[row] * width), (row * heads + head) * size * width);
        }
      }
      feeds[name] = { data, shape: [rows.length, heads, size, width], dataType };
      if (performance.now() - since < HOLD_MS) continue;
      await others();
      since = performance.now();
    }
    return { feeds, lengths, size };
  }
}

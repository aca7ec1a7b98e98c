// Runs a language model with a growing cache, for one text or for several at once.

import { batchInputs, batchLogits, emptyCache, nextCache } from 'webnn-node-text/decoder';
import { arrayOf, elementSize, feedsOf } from 'webnn-node-text/elements';

/**
 * Keys and values of texts. A text is a row, which has room for `size` tokens and is padded at its end. What a step gives are
 * tensors that their owner releases: left to the garbage collector, they would make it run at every step.
 * @typedef {object} Cache
 * @property {Record<string, any>} feeds by name of the input
 * @property {Record<string, any> | null} spare as large, to write the next step to; null for one text, whose cache grows
 * @property {readonly number[]} lengths tokens of each row
 * @property {number} size
 */

/** @typedef {{ logits: ArrayLike<number>[], cache: Cache }} Step scores for the place behind the last token, by row */

/** A padding row: one token whose logits are ignored. */
const NO_TEXT = { length: 0, id: 0 };

/** Room in a cache of several texts: a multiple of the block, and at least the margin is free at first. */
const [BLOCK, MARGIN] = [128, 32];

/**
 * The room for texts of this length.
 * @param {number} length
 * @param {number} most
 */
export const roomFor = (length, most) => Math.min(most, BLOCK * Math.ceil((length + MARGIN) / BLOCK));

/** Memory for one array after the other. */
class Room {
  #buffer = new ArrayBuffer(0);

  /**
   * @param {string} dataType
   * @param {number} length
   * @returns {any} an array that is valid until the next one is taken
   */
  take(dataType, length) {
    const bytes = length * elementSize(dataType);
    if (this.#buffer.byteLength !== bytes) this.#buffer = new ArrayBuffer(bytes);
    return arrayOf(dataType, this.#buffer);
  }
}

export class Decoder {
  #model;
  #described;
  #fetches;

  /**
   * @param {import('webnn-node/onnx').OnnxModel} model
   * @param {import('webnn-node-text/decoder').Decoder} described
   */
  constructor(model, described) {
    this.#model = model;
    this.#described = described;
    this.#fetches = Object.fromEntries(described.cache.map(({ output }) => [output, /** @type {const} */ ('tensor')]));
  }

  /** The cache of a text that has not begun. @returns {Cache} */
  get empty() {
    return { feeds: feedsOf(emptyCache(this.#described)), spare: null, lengths: [0], size: 0 };
  }

  /**
   * Reads the next tokens of one text. The cache stays as it is.
   * @param {readonly number[]} ids
   * @param {Cache} cache
   * @returns {Promise<Step>}
   */
  async read(ids, { feeds, size }) {
    const inputs = feedsOf(batchInputs(this.#described, { rows: [ids], lengths: [size], size }));
    const results = await this.#model.run({ ...inputs, ...feeds }, this.#fetches);
    const cache = { feeds: nextCache(this.#described, results), spare: null, lengths: [size + ids.length], size: size + ids.length };
    return { logits: batchLogits(results.logits), cache };
  }

  /**
   * Reads the next token of each row of a cache with spare room: the results take the place of what is there.
   * @param {readonly (number | null)[]} ids null for rows without a text
   * @param {Cache} cache must not be used any more
   * @returns {Promise<Step>}
   */
  async step(ids, { feeds, spare, lengths, size }) {
    const before = lengths.map((length, row) => (ids[row] === null ? NO_TEXT.length : length));
    const inputs = feedsOf(batchInputs(this.#described, { rows: ids.map((id) => [id ?? NO_TEXT.id]), lengths: before, size: size - 1 }));
    const fetches = Object.fromEntries(this.#described.cache.map(({ name, output }) => [output, spare?.[name]]));
    const { logits } = await this.#model.run({ ...inputs, ...feeds }, fetches);
    return {
      logits: batchLogits(logits),
      cache: { feeds: /** @type {Cache['feeds']} */ (spare), spare: feeds, lengths: before.map((length) => length + 1), size },
    };
  }

  /**
   * Gives the memory of a cache back.
   * @param {Cache | null} cache
   */
  release(cache) {
    for (const feed of [...Object.values(cache?.feeds ?? {}), ...Object.values(cache?.spare ?? {})]) feed.destroy?.();
  }

  /**
   * The elements of a part of a cache.
   * @param {Cache} cache
   * @param {import('webnn-node-text/decoder').CacheInput} part
   * @param {Room} room
   * @returns {Promise<any>}
   */
  async #elements({ feeds, lengths, size: tokens }, { name, dataType, heads, size }, room) {
    const feed = feeds[name];
    if (feed.data !== undefined) return feed.data;
    const elements = room.take(dataType, lengths.length * heads * tokens * size);
    await this.#model.context.readTensor(feed, elements);
    return elements;
  }

  /**
   * Copies rows into a new cache: of one text without padding, of several with room for further tokens.
   * @param {readonly ({ cache: Cache, row: number } | null)[]} rows null for rows without a text
   * @param {number} most tokens that the model can read
   * @returns {Promise<Cache>}
   */
  async merge(rows, most) {
    const { context } = this.#model;
    const lengths = rows.map((from) => (from === null ? NO_TEXT.length : from.cache.lengths[from.row]));
    const size = rows.length === 1 ? lengths[0] : roomFor(Math.max(...lengths), most);
    const caches = [...new Set(rows.flatMap((from) => from?.cache ?? []))];
    /** @type {Record<string, any>[]} */
    const [feeds, spare] = [{}, {}];
    const rooms = new Map(caches.map((cache) => [cache, new Room()]));
    const target = new Room();
    for (const part of this.#described.cache) {
      const { name, heads, size: width, dataType } = part;
      const read = [...rooms].map(async ([cache, room]) => /** @type {const} */ ([cache, await this.#elements(cache, part, room)]));
      const sources = new Map(await Promise.all(read));
      const data = target.take(dataType, rows.length * heads * size * width).fill(0);
      for (const [row, from] of rows.entries()) {
        if (from === null) continue;
        const source = sources.get(from.cache);
        for (let head = 0; head < heads; head++) {
          const at = (from.row * heads + head) * from.cache.size * width;
          data.set(source.subarray(at, at + lengths[row] * width), (row * heads + head) * size * width);
        }
      }
      const descriptor = { dataType: /** @type {any} */ (dataType), shape: [rows.length, heads, size, width], readable: true, writable: true };
      feeds[name] = await context.createTensor(descriptor);
      context.writeTensor(feeds[name], data);
      if (rows.length > 1) spare[name] = await context.createTensor(descriptor);
    }
    return { feeds, spare: rows.length > 1 ? spare : null, lengths, size };
  }
}

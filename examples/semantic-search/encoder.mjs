// Sentences to vectors: a tokenizer and the model around one call, `encode()`.
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { loadModel } from 'webnn-node/onnx';

/** Sentences per run of the model. */
const BATCH = 16;

/** Sentences are padded to a multiple of this many tokens: few shapes, so few graphs to compile. */
const STEP = 16;

/** What the model was trained with; longer texts are cut. */
const MAX_TOKENS = 256;

const readJson = async (/** @type {string} */ file) => JSON.parse(await readFile(file, 'utf8'));

/** A sentence encoder. Vectors have length 1: the dot product of two is their cosine. */
export class Encoder {
  #tokenizer;
  #model;

  /**
   * @param {Tokenizer} tokenizer
   * @param {import('webnn-node/onnx').OnnxModel} model
   */
  constructor(tokenizer, model) {
    this.#tokenizer = tokenizer;
    this.#model = model;
  }

  /**
   * @param {string} folder of model.onnx, tokenizer.json and tokenizer_config.json
   * @returns {Promise<Encoder>}
   */
  static async load(folder) {
    const files = ['tokenizer.json', 'tokenizer_config.json'].map((name) => readJson(path.join(folder, name)));
    const [tokenizer, config] = await Promise.all(files);
    // The file asks for a fixed length of 128; here batches are padded to what they need.
    const unpadded = { ...tokenizer, padding: null, truncation: null };
    return new Encoder(new Tokenizer(unpadded, config), await loadModel(path.join(folder, 'model.onnx')));
  }

  /**
   * The tokens of a text, between the marks of begin and end.
   * @param {string} text
   * @returns {number[]}
   */
  tokens(text) {
    const { ids } = this.#tokenizer.encode(text);
    return ids.length <= MAX_TOKENS ? ids : [...ids.slice(0, MAX_TOKENS - 1), ids[ids.length - 1]];
  }

  /**
   * @param {string[]} texts
   * @returns {Promise<Float32Array[]>} a vector per text, in their order
   */
  async encode(texts) {
    // Texts of similar length share a batch, so that little of it is padding.
    const rows = texts.map((text, index) => ({ index, ids: this.tokens(text) }));
    rows.sort((a, b) => a.ids.length - b.ids.length);
    const vectors = new Array(texts.length);
    for (let i = 0; i < rows.length; i += BATCH) {
      const batch = rows.slice(i, i + BATCH);
      const results = await this.#run(batch.map(({ ids }) => ids));
      batch.forEach(({ index }, row) => (vectors[index] = results[row]));
    }
    return vectors;
  }

  /**
   * Runs the model on one batch of token lists.
   * @param {number[][]} lists
   * @returns {Promise<Float32Array[]>}
   */
  async #run(lists) {
    const longest = Math.max(...lists.map((ids) => ids.length));
    const shape = [lists.length, Math.ceil(longest / STEP) * STEP];
    const inputIds = new BigInt64Array(shape[0] * shape[1]);
    const attentionMask = new BigInt64Array(inputIds.length);
    lists.forEach((ids, row) => {
      inputIds.set(ids.map(BigInt), row * shape[1]);
      attentionMask.fill(1n, row * shape[1], row * shape[1] + ids.length);
    });
    const { embedding } = await this.#model.run({
      input_ids: { data: inputIds, shape },
      attention_mask: { data: attentionMask, shape },
    });
    const [, width] = embedding.shape;
    return lists.map((_, row) => embedding.data.slice(row * width, (row + 1) * width));
  }

  /** Frees the model's memory. */
  destroy() {
    this.#model.destroy();
  }
}

/**
 * The cosine of the angle between two vectors of length 1: 1 for the same direction.
 * @param {Float32Array} a
 * @param {Float32Array} b
 */
export function cosine(a, b) {
  return a.reduce((sum, value, i) => sum + value * b[i], 0);
}

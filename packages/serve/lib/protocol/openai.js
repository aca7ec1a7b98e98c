// Requests and answers of OpenAI's API.

import { invalid } from '../errors.js';
import { checkerOf } from './checker.js';
import { EMBEDDINGS } from './schemas-openai.js';
import { parseJson } from './v2-json.js';

/**
 * Checks the value of a body: null members are left out.
 * @typedef {(json: unknown) => Record<string, any>} Check
 */

/**
 * The body of a request, checked.
 * @param {Uint8Array} bytes
 * @param {Check} check
 * @returns {Record<string, any>}
 * @throws {import('../errors.js').ServeError}
 */
export function decodeBody(bytes, check) {
  return check(parseJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()));
}

/** @type {Check} */
export const checkEmbeddings = checkerOf(EMBEDDINGS);

/**
 * Reads a request for embeddings.
 * @param {Record<string, any>} body from {@link checkEmbeddings}
 * @param {number} width numbers of the model's vectors
 * @returns {{ inputs: (string | number[])[], format: 'float' | 'base64', dimensions: number }}
 */
export function decodeEmbeddings(body, width) {
  const { input, encoding_format: format = 'float', dimensions = width } = body;
  if (dimensions > width) {
    const message = `dimensions must be a whole number from 1 to ${width}; it is ${dimensions}`;
    throw invalid(message, { param: 'dimensions', code: 'invalid_value' });
  }
  return { inputs: listOf(input), format, dimensions };
}

/**
 * Texts as a list; one of them may stand alone, also as a list of tokens.
 * @param {string | number[] | (string | number[])[]} texts
 * @returns {(string | number[])[]}
 */
export const listOf = (texts) =>
  typeof texts === 'string' || typeof texts[0] === 'number' ? [/** @type {string | number[]} */ (texts)] : /** @type {any} */ (texts);

/**
 * Writes the answer of embeddings.
 * @param {string} model
 * @param {{ vectors: Float32Array[], tokens: number }} result
 * @param {'float' | 'base64'} format
 */
export function encodeEmbeddings(model, { vectors, tokens }, format) {
  const write = (/** @type {Float32Array} */ vector) =>
    format === 'float' ? Array.from(vector) : Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('base64');
  const data = vectors.map((vector, index) => ({ object: 'embedding', index, embedding: write(vector) }));
  return { object: 'list', data, model, usage: { prompt_tokens: tokens, total_tokens: tokens } };
}

/**
 * Writes an error.
 * @param {import('../errors.js').ServeError} error
 */
export function encodeError({ message, openai: type, param, code }) {
  return { error: { message, type, param: param ?? null, code: code ?? null } };
}

// Requests and answers of OpenAI's API.

import { invalid } from '../errors.js';
import { parseJson } from './v2-json.js';

/**
 * The body of a request.
 * @param {Buffer} body
 * @returns {Record<string, unknown>}
 */
export function decodeBody(body) {
  const json = parseJson(body.toString());
  if (json === null || typeof json !== 'object' || Array.isArray(json)) throw invalid('the body is not an object');
  if (typeof json.model !== 'string' || json.model === '') throw invalid('the request names no model', { param: 'model' });
  return json;
}

const isToken = (/** @type {unknown} */ id) => Number.isSafeInteger(id) && /** @type {number} */ (id) >= 0;
const isTokens = (/** @type {unknown} */ value) => Array.isArray(value) && value.length > 0 && value.every(isToken);

/**
 * @param {unknown} input one text or list of tokens, or several
 * @returns {(string | number[])[]}
 */
function inputsOf(input) {
  const list = typeof input === 'string' || isTokens(input) ? [input] : input;
  const isValid = Array.isArray(list) && list.length > 0 && list.every((entry) => (typeof entry === 'string' && entry !== '') || isTokens(entry));
  if (!isValid) throw invalid('input must be a text that is not empty, a list of tokens, or a list of these', { param: 'input' });
  return list;
}

/**
 * Reads a request for embeddings.
 * @param {Record<string, unknown>} body
 * @param {number} width numbers of the model's vectors
 * @returns {{ inputs: (string | number[])[], format: 'float' | 'base64', dimensions: number }}
 */
export function decodeEmbeddings(body, width) {
  const { input, encoding_format: format = 'float', dimensions = width } = body;
  if (format !== 'float' && format !== 'base64') throw invalid('encoding_format must be "float" or "base64"', { param: 'encoding_format' });
  if (!Number.isInteger(dimensions) || /** @type {number} */ (dimensions) < 1 || /** @type {number} */ (dimensions) > width) {
    throw invalid(`dimensions must be a whole number from 1 to ${width}`, { param: 'dimensions' });
  }
  return { inputs: inputsOf(input), format, dimensions: /** @type {number} */ (dimensions) };
}

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

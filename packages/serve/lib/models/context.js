// How many tokens prompt and answer may have: the model's own context, less if the caches of all texts would not fit into memory.

import { totalmem } from 'node:os';
import { elementSize } from 'webnn-node-text/elements';

/**
 * @typedef {object} ContextBound
 * @property {number} maxLength tokens of prompt and answer
 * @property {number} tokens of all texts that can be there at the same time
 * @property {string[]} warnings for whoever runs the server
 */

/** The part of the memory that caches may take, unless `maxLength` is set. */
const SHARE = 1 / 4;

/** Texts that are computed together have the results of a step in a second cache. */
const [CACHES_TOGETHER, CACHES_ALONE] = [2, 1];

/** Bytes that this process may use: those of the machine, or of its container. */
const memory = () => Math.min(totalmem(), process.constrainedMemory() || Infinity);

/**
 * Chooses the bound.
 * @param {readonly import('webnn-node-text/decoder').CacheInput[]} cache
 * @param {object} options
 * @param {number} options.own tokens that the model can read; Infinity if nobody knows
 * @param {number | null} options.wanted the setting `maxLength`
 * @param {boolean} options.isTogether whether texts may be computed together
 * @param {number} options.maxSequences texts at the same time
 * @param {number} [options.bytes] that the process may use
 * @returns {ContextBound}
 */
export function contextBound(cache, { own, wanted, isTogether, maxSequences, bytes = memory() }) {
  const bytesPerToken = cache.reduce((sum, { heads, size, dataType }) => sum + heads * size * elementSize(dataType), 0);
  const copies = isTogether ? CACHES_TOGETHER : CACHES_ALONE;
  const fitting = Math.max(1, Math.floor((SHARE * bytes) / (bytesPerToken * copies * maxSequences)));
  const maxLength = Math.min(own, wanted ?? fitting);
  const bound = { maxLength, tokens: maxLength * maxSequences, warnings: [] };
  if (wanted !== null || own <= fitting) return bound;
  const mib = (/** @type {number} */ count) => Math.round(count / 2 ** 20);
  const reads = own === Infinity ? 'the folder does not say how long a context the model reads' : `the model reads ${own} tokens`;
  const warning =
    `prompt and answer may have ${maxLength} tokens: ${reads}, and the caches of ${maxSequences} texts (maxSequences) of ${bytesPerToken} bytes a token ` +
    `should take at most ${mib(SHARE * bytes)} MiB, a quarter of the memory. Set maxLength in model.json to allow more or fewer, or lower maxSequences`;
  return { ...bound, warnings: [warning] };
}

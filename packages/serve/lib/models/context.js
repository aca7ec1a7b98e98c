// How many tokens texts may have: one has the model's own context, less if its cache would not fit into memory, and all together have as
// many as fit. Texts for whose caches there is no room wait.

import { totalmem } from 'node:os';
import { elementSize } from 'webnn-node-text/elements';

/**
 * @typedef {object} ContextBound
 * @property {number} maxLength tokens of prompt and answer
 * @property {number} tokens that the caches of all texts may have together
 * @property {string[]} warnings for whoever runs the server
 */

/** The part of the memory that caches may take. Whoever sets `maxLength` wants that for all texts. */
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
  const bytesOfToken = bytesPerToken * (isTogether ? CACHES_TOGETHER : CACHES_ALONE);
  if (wanted !== null) {
    const maxLength = Math.min(own, wanted);
    return { maxLength, tokens: maxLength * maxSequences, warnings: [] };
  }
  const fitting = Math.max(1, Math.floor((SHARE * bytes) / bytesOfToken));
  const maxLength = Math.min(own, fitting);
  const bound = { maxLength, tokens: Math.min(fitting, maxLength * maxSequences), warnings: [] };
  if (own <= fitting) return bound;
  const reads = own === Infinity ? 'the folder does not say how long a context the model reads' : `the model reads ${own} tokens`;
  const warning =
    `prompt and answer may have ${maxLength} tokens: ${reads}, and the caches of all texts, of ${bytesOfToken} bytes a token, ` +
    `should take at most ${Math.round((SHARE * bytes) / 2 ** 20)} MiB, a quarter of the memory. Set maxLength in model.json to allow more or fewer`;
  return { ...bound, warnings: [warning] };
}

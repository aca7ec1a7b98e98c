// Parameters of the Open Inference Protocol that change what an answer means, and that this server does not have: whoever sends them must
// not get an answer to another question. Others are ignored, as the protocol lets a server do.

import { invalid } from '../errors.js';

/** Names of parameters, by what has them. An input or output is a tensor. */
const REFUSED = {
  request: ['sequence_id', 'sequence_start', 'sequence_end', 'priority'],
  tensor: ['classification', 'shared_memory_region', 'shared_memory_offset', 'shared_memory_byte_size'],
};

/** Values that say nothing: some clients send them for what their callers did not set. @type {ReadonlySet<unknown>} */
const EMPTY = new Set([undefined, null, false, 0, 0n, '']);

/**
 * Refuses parameters that this server cannot heed.
 * @param {unknown} parameters a Map, or an object as JSON has it; nothing else has parameters
 * @param {keyof typeof REFUSED} owner what has them
 * @param {string} what names the owner in errors
 * @throws {import('../errors.js').ServeError} that names the parameter
 */
export function checkParameters(parameters, owner, what) {
  const given = /** @type {any} */ (parameters);
  for (const name of REFUSED[owner]) {
    const value = given instanceof Map ? given.get(name) : given?.[name];
    if (!EMPTY.has(value)) throw invalid(`${what}: the parameter ${name} is not supported`);
  }
}

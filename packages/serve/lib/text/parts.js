// Long work in parts, between which others get their turn.

import { setImmediate } from 'node:timers/promises';

/** How long nothing else happens, in milliseconds, unless one entry takes longer. */
const PART_MS = 10;

/**
 * Maps a list: reading its texts can take seconds.
 * @template From, To
 * @param {readonly From[]} list
 * @param {(entry: From, index: number) => To} map
 * @returns {Promise<To[]>}
 */
export async function mapInParts(list, map) {
  const results = [];
  let begun = performance.now();
  for (const [index, entry] of list.entries()) {
    results.push(map(entry, index));
    if (performance.now() - begun < PART_MS) continue;
    await setImmediate();
    begun = performance.now();
  }
  return results;
}

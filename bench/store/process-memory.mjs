// The memory of processes, from Linux's /proc.

import { readFileSync } from 'node:fs';

/**
 * @param {number | 'self'} pid
 * @returns {import('./types.d.mts').ProcessMemory}
 */
export function memoryOf(pid) {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const row = (/** @type {string} */ name) => {
    const [, kilobytes] = /** @type {RegExpExecArray} */ (new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text));
    return Number(kilobytes) * 1024;
  };
  return { resident: row('Rss'), proportional: row('Pss'), private: row('Private_Clean') + row('Private_Dirty') };
}

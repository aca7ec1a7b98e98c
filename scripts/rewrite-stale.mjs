// Generated folders that are rewritten when their generators change.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

/**
 * Rewrites a folder if its source has changed.
 *
 * @param {string} folder
 * @param {string} source everything that determines the content
 * @param {() => unknown} write
 */
export async function rewriteIfStale(folder, source, write) {
  const stamp = `${folder}.written-from`;
  const digest = createHash('sha256').update(source).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === digest) {
    return;
  }
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await write();
  writeFileSync(stamp, digest);
}

// Folders that programs write, written again when those change.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

/**
 * Writes a folder again where what it was written from has changed.
 *
 * @param {string} folder
 * @param {string} source everything that decides about the content
 * @param {() => unknown} write
 */
export async function renew(folder, source, write) {
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

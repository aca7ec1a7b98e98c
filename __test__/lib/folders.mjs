/** Folders that exist for the duration of a test or of a test file. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after } from 'node:test';

/**
 * Creates a folder that is removed at the end.
 *
 * @param {{ after: (end: () => void) => void }} [owner] the context of a test; without it, the suite or file that calls
 * @param {Record<string, unknown>} [files] its files by path: text, bytes, or what is written as JSON
 * @returns {string} its path
 */
export function temporaryFolder(owner = { after }, files = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'webnn-test-'));
  owner.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [path, contents] of Object.entries(files)) {
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true });
    const isWritten = typeof contents === 'string' || ArrayBuffer.isView(contents);
    writeFileSync(file, isWritten ? /** @type {string | Uint8Array} */ (contents) : JSON.stringify(contents));
  }
  return folder;
}

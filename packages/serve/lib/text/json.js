// JSON files of a folder of a model.

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { RepositoryError } from '../registry/repository.js';

/**
 * @param {string} file
 * @returns {Promise<any>} null if there is no such file
 * @throws {RepositoryError} if it is not JSON
 */
export async function readJson(file) {
  if (!existsSync(file)) return null;
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (cause) {
    throw new RepositoryError(`${file} is not JSON: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

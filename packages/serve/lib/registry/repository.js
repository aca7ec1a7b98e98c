// What lies in a folder of models. Names come from the folder's list, never from a request, so no request reaches other paths.
//
//   REPOSITORY/NAME/VERSION/model.onnx    as KServe and Triton have it; versions are numbers
//   REPOSITORY/NAME/model.onnx            version 1
//   REPOSITORY/NAME.onnx                  version 1
//   REPOSITORY/NAME/tokenizer.json, config.json, onnx/model.onnx    a model as Transformers.js has it: texts in
//   REPOSITORY/NAME/model.json            settings, see config.js

import { existsSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';

/** A folder without what is expected in it. */
export class RepositoryError extends Error {
  name = 'RepositoryError';
}

/**
 * A model in a folder.
 * @typedef {object} Entry
 * @property {string} name
 * @property {{ version: string, path: string }[]} versions newest first; `path` is a folder or an .onnx file
 * @property {string | null} config path of model.json
 */

const isFolder = (/** @type {string} */ file) => statSync(file).isDirectory();

/**
 * Whether a folder is itself one version of a model.
 * @param {string} folder
 */
const isModel = (folder) => ['model.onnx', 'tokenizer.json', 'onnx'].some((name) => existsSync(path.join(folder, name)));

/** Hidden files, and what file systems have at the root of a volume, which only root may read. */
const NO_MODELS = /^\.|^lost\+found$/;

const VERSION = /^[1-9]\d{0,8}$/;

/**
 * @param {string} folder
 * @param {string} [name]
 * @returns {Promise<Entry | null>} null for a folder without a model
 */
async function entryOf(folder, name = path.basename(folder)) {
  const file = path.join(folder, 'model.json');
  const config = existsSync(file) ? file : null;
  if (isModel(folder)) return { name, config, versions: [{ version: '1', path: folder }] };
  const numbers = (await readdir(folder)).filter((entry) => VERSION.test(entry) && isFolder(path.join(folder, entry)));
  const versions = numbers
    .filter((version) => isModel(path.join(folder, version)))
    .sort((a, b) => Number(b) - Number(a))
    .map((version) => ({ version, path: path.join(folder, version) }));
  return versions.length === 0 ? null : { name, config, versions };
}

/**
 * Lists the models of a folder, or the one that the folder itself is.
 * @param {string} repository
 * @param {string} [name] of the model that the folder itself is; by default that of the folder
 * @returns {Promise<Entry[]>} by name
 * @throws {RepositoryError} if there is no such folder
 */
export async function listModels(repository, name) {
  if (!existsSync(repository) || !isFolder(repository)) throw new RepositoryError(`there is no folder ${repository}`);
  const own = await entryOf(path.resolve(repository), name);
  if (own !== null) return [own];
  const files = (await readdir(repository)).filter((file) => !NO_MODELS.test(file)).sort();
  const entries = files.map(async (file) => {
    const location = path.resolve(repository, file);
    if (isFolder(location)) return entryOf(location);
    return file.endsWith('.onnx') ? { name: file.slice(0, -'.onnx'.length), config: null, versions: [{ version: '1', path: location }] } : null;
  });
  return (await Promise.all(entries)).filter((entry) => entry !== null);
}

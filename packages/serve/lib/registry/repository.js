// What lies in a folder of models. Names come from the folder's list, never from a request, so no request reaches other paths.
//
//   REPOSITORY/NAME/VERSION/model.onnx    as KServe and Triton have it; versions are numbers
//   REPOSITORY/NAME/model.onnx            version 1
//   REPOSITORY/NAME.onnx                  version 1
//   REPOSITORY/NAME/tokenizer.json, config.json, onnx/model.onnx    a model as Transformers.js has it: texts in
//   REPOSITORY/NAME/model.json            settings, see config.js
//
// The only .onnx file of a folder counts as model.onnx. What is none of these is left out with its reason, and stops nothing.

import { existsSync, lstatSync, readdirSync, readlinkSync, statSync } from 'node:fs';
import path from 'node:path';
import { hasModelFile, onnxFiles } from '../models/files.js';

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

/** What is no model. @typedef {{ path: string, reason: string }} Skipped */

/** @typedef {{ entries: Entry[], skipped: Skipped[] }} Listing */

const EXPECTED = 'NAME.onnx, NAME/model.onnx, NAME/VERSION/model.onnx, or NAME/onnx/model.onnx with NAME/tokenizer.json';

/** Hidden files, and what file systems have at the root of a volume, which only root may read. */
const NO_MODELS = /^\.|^lost\+found$/;

const VERSION = /^[1-9]\d{0,8}$/;

/** What lies beside the folder `onnx` of a model, and in no folder of models. */
const MODEL_FILES = ['config.json', 'model.json', 'preprocessor_config.json', 'tokenizer_config.json'];

const has = (/** @type {string} */ folder, /** @type {string} */ name) => existsSync(path.join(folder, name));

/** @param {string} folder */
const namesIn = (folder) =>
  readdirSync(folder)
    .filter((name) => !NO_MODELS.test(name))
    .sort();

/**
 * Why something cannot be looked at.
 * @param {string} location
 * @param {unknown} error of the file system
 */
function reasonOf(location, error) {
  const { code } = /** @type {NodeJS.ErrnoException} */ (error);
  if (code === undefined) throw error;
  const isLink = lstatSync(location, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
  return code === 'ENOENT' && isLink ? `a link to ${readlinkSync(location)}, which does not exist` : `it cannot be read (${code})`;
}

/**
 * Whether a folder is one version of a model by the names in it, even if it has folders with numbers.
 * @param {string} folder
 */
const isNamed = (folder) => has(folder, 'tokenizer.json') || onnxFiles(folder).includes('model.onnx') || (has(folder, 'onnx') && hasModelFile(folder));

/**
 * Whether a folder is one version of a model.
 * @param {string} folder
 */
const isVersion = (folder) => has(folder, 'tokenizer.json') || hasModelFile(folder);

/**
 * Why a folder is no model.
 * @param {string} folder
 */
function reasonOfNone(folder) {
  const files = onnxFiles(folder).concat(onnxFiles(path.join(folder, 'onnx')).map((name) => `onnx/${name}`));
  if (files.length > 0) return `several .onnx files and no model.onnx: ${files.join(', ')}`;
  const names = namesIn(folder).map((name) => (has(folder, name) ? name : `${name} (a link to nothing)`));
  return `no model in it, expected ${EXPECTED}, with whole numbers from 1 as versions; ${names.length === 0 ? 'it is empty' : `it has ${names.join(', ')}`}`;
}

/**
 * The model that a folder is.
 * @param {string} folder
 * @param {string} [name]
 * @returns {Listing} with one entry, or none
 */
function modelIn(folder, name = path.basename(folder)) {
  /** @type {Skipped[]} */
  const skipped = [];
  const config = has(folder, 'model.json') ? path.join(folder, 'model.json') : null;
  const own = { entries: [{ name, config, versions: [{ version: '1', path: folder }] }], skipped };
  if (isNamed(folder)) return own;
  const versions = namesIn(folder)
    .filter((entry) => VERSION.test(entry))
    .sort((a, b) => Number(b) - Number(a))
    .flatMap((version) => {
      const location = path.join(folder, version);
      try {
        if (isVersion(location)) return [{ version, path: location }];
        skipped.push({ path: location, reason: statSync(location).isDirectory() ? reasonOfNone(location) : 'it is no folder' });
      } catch (error) {
        skipped.push({ path: location, reason: reasonOf(location, error) });
      }
      return [];
    });
  if (versions.length > 0) return { entries: [{ name, config, versions }], skipped };
  if (isVersion(folder)) return own;
  return { entries: [], skipped: skipped.length > 0 ? skipped : [{ path: folder, reason: reasonOfNone(folder) }] };
}

/**
 * @param {string} file
 * @param {string} [name]
 * @returns {Entry}
 */
const fileEntry = (file, name = path.basename(file, '.onnx')) => ({ name, config: null, versions: [{ version: '1', path: file }] });

/**
 * The model that a path names: an .onnx file, a folder of a model, or one of its versions.
 * @param {string} location
 * @param {string} [name] by default that of the file or folder
 * @returns {Listing} with one entry
 * @throws {RepositoryError} if it is none
 */
export function findModel(location, name) {
  const resolved = path.resolve(location);
  const stats = statSync(resolved, { throwIfNoEntry: false });
  if (stats === undefined) throw new RepositoryError(`there is no model ${location}`);
  if (!stats.isDirectory() && !resolved.endsWith('.onnx')) throw new RepositoryError(`${location} is no folder and no .onnx file`);
  const { entries, skipped } = stats.isDirectory() ? modelIn(resolved, name) : { entries: [fileEntry(resolved, name)], skipped: [] };
  if (entries.length === 0) throw new RepositoryError(skipped.map(({ path: place, reason }) => `${place}: ${reason}`).join('\n'));
  const [entry] = entries;
  // Settings lie beside a file, and beside the versions of a model.
  const parent = path.join(path.dirname(resolved), 'model.json');
  const inherits = entry.config === null && (!stats.isDirectory() || VERSION.test(path.basename(resolved)));
  return { entries: [inherits && existsSync(parent) ? { ...entry, config: parent } : entry], skipped };
}

/**
 * Whether a folder is itself a model, and not a folder of models, one of which may be called `onnx`.
 * @param {string} folder
 * @param {string | undefined} name given for the model
 */
function isModel(folder, name) {
  if (has(folder, 'tokenizer.json') || onnxFiles(folder).includes('model.onnx')) return true;
  const isGivenName = name !== undefined && hasModelFile(folder);
  const hasWeights = onnxFiles(path.join(folder, 'onnx')).length > 0 && MODEL_FILES.some((file) => has(folder, file));
  return isGivenName || hasWeights || namesIn(folder).some((entry) => VERSION.test(entry) && isReadableVersion(path.join(folder, entry)));
}

/**
 * Whether a folder is one version of a model. One that may not be read is an entry like others, which is left out later.
 * @param {string} folder
 */
function isReadableVersion(folder) {
  try {
    return isVersion(folder);
  } catch (error) {
    // Throws what is no error of the file system.
    reasonOf(folder, error);
    return false;
  }
}

/**
 * What an entry of a folder of models is.
 * @param {string} location
 * @returns {Listing}
 */
function look(location) {
  const skip = (/** @type {string} */ reason) => ({ entries: [], skipped: [{ path: location, reason }] });
  try {
    const stats = statSync(location);
    if (stats.isDirectory()) return modelIn(location);
    if (stats.isFile() && location.endsWith('.onnx')) return { entries: [fileEntry(location)], skipped: [] };
    return skip('it is no folder and no .onnx file');
  } catch (error) {
    return skip(reasonOf(location, error));
  }
}

/**
 * Lists the models of a folder, or the one that the folder or file itself is.
 * @param {string} repository
 * @param {string} [name] of the model that the folder or file itself is; by default its own
 * @returns {Listing} models by name, and what is none
 * @throws {RepositoryError} if there is no such folder
 */
export function listModels(repository, name) {
  const root = path.resolve(repository);
  try {
    const stats = statSync(root, { throwIfNoEntry: false });
    if (stats === undefined) throw new RepositoryError(`there is no folder ${repository}`);
    if (!stats.isDirectory() || isModel(root, name)) return findModel(root, name);
    const names = namesIn(root);
    // Weights of a file lie beside it.
    const isData = (/** @type {string} */ file) => names.some((other) => other.endsWith('.onnx') && file !== other && file.startsWith(other));
    const listings = names.filter((file) => !isData(file)).map((file) => look(path.join(root, file)));
    /** @type {Map<string, Entry>} */
    const entries = new Map();
    const skipped = listings.flatMap((listing) => listing.skipped);
    for (const entry of listings.flatMap((listing) => listing.entries)) {
      if (!entries.has(entry.name)) entries.set(entry.name, entry);
      else skipped.push({ path: entry.versions[0].path, reason: `there is another model ${entry.name}` });
    }
    return { entries: [...entries.values()], skipped };
  } catch (error) {
    if (error instanceof RepositoryError) throw error;
    throw new RepositoryError(`${repository}: ${reasonOf(root, error)}`, { cause: error });
  }
}

/**
 * What to say about a folder without models.
 * @param {string} repository
 */
export const nothingIn = (repository) => `there is no model in ${repository}, expected ${EXPECTED}`;

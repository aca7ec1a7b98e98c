// Which file of a folder has the weights.

import { closeSync, existsSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import path from 'node:path';
import { RepositoryError } from '../registry/repository.js';

/** Files of weights by data type, without .onnx: the names of Transformers.js. */
const FILE_NAMES = /** @type {Record<string, string[]>} */ ({ fp32: ['model'], q8: ['model_quantized', 'model_q8'] });

/**
 * Names of the files with weights of a data type.
 * @param {string} dtype
 */
export const fileNames = (dtype) => (FILE_NAMES[dtype] ?? [`model_${dtype}`]).map((name) => `${name}.onnx`);

/**
 * The data types of files.
 * @param {readonly string[]} files
 */
export function dtypesOf(files) {
  const named = files.flatMap((file) => /^model_(.+)\.onnx$/.exec(file)?.[1] ?? []).filter((dtype) => dtype !== 'quantized');
  const others = Object.keys(FILE_NAMES).filter((dtype) => fileNames(dtype).some((name) => files.includes(name)));
  return [...new Set([...others, ...named])];
}

/** Whether a file is one of several with the same weights in different data types. */
const isVariant = (/** @type {string} */ file) => /^model_(quantized|fp16|int8|uint8|q8|q4|q4f16|bnb4)\.onnx$/.test(file);

/** @param {string} file @returns {boolean} false also for links that lead nowhere, and for what may not be looked at */
function isFile(file) {
  try {
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/**
 * The .onnx files of a folder.
 * @param {string} folder
 * @returns {string[]} names, none if there is no such folder
 * @throws {Error} of the file system, if the folder may not be read
 */
export function onnxFiles(folder) {
  const names = existsSync(folder) && statSync(folder).isDirectory() ? readdirSync(folder) : [];
  return names.filter((name) => name.endsWith('.onnx') && !name.startsWith('.') && isFile(path.join(folder, name))).sort();
}

/** How the files begin that Git leaves in place of large ones. */
const POINTER = 'version https://git-lfs';

/**
 * Refuses a file that only says where the model is.
 * @param {string} file
 * @throws {RepositoryError}
 */
export function checkContent(file) {
  const head = Buffer.alloc(POINTER.length);
  const descriptor = openSync(file, 'r');
  try {
    readSync(descriptor, head);
  } finally {
    closeSync(descriptor);
  }
  if (head.toString() === POINTER) throw new RepositoryError(`${file} is not the model, only a pointer of Git LFS to it: run git lfs pull in its folder`);
}

/**
 * The model file of a folder, or what makes it none.
 * @param {string} folder
 * @param {string} dtype
 * @returns {string}
 * @throws {RepositoryError}
 */
export function modelFile(folder, dtype) {
  const names = fileNames(dtype);
  const folders = [path.join(folder, 'onnx'), folder];
  const all = folders.flatMap((place) => onnxFiles(place).map((name) => path.join(place, name)));
  const found = names.flatMap((name) => folders.map((place) => path.join(place, name))).find((file) => all.includes(file));
  const alone = all.length === 1 && dtype === 'fp32' && !isVariant(path.basename(all[0])) ? all[0] : undefined;
  // A file alone is the model, whatever its name is, unless that says that it has other weights.
  const file = found ?? alone;
  if (file !== undefined) return file;
  const listed = all.map((file) => path.relative(folder, file)).join(', ');
  const dtypes = dtypesOf(all.map((file) => path.basename(file)));
  const hint = dtypes.length === 0 ? '' : `; "dtype" in model.json can be ${dtypes.join(', ')}`;
  throw new RepositoryError(`there is no ${names.join(' or ')} in ${folder} or its folder onnx${listed === '' ? '' : `, only ${listed}`}${hint}`);
}

/**
 * Whether a folder has weights that can be chosen from by data type, or a file that can only be meant.
 * @param {string} folder
 */
export function hasModelFile(folder) {
  const all = [path.join(folder, 'onnx'), folder].flatMap(onnxFiles);
  return all.length === 1 || all.some((name) => name === 'model.onnx' || isVariant(name));
}

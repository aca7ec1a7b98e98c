// Which file of a folder has the weights.

import { existsSync, readdirSync, statSync } from 'node:fs';
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

/**
 * The .onnx files of a folder; what cannot be looked at is none.
 * @param {string} folder
 * @returns {string[]} names
 */
export function onnxFiles(folder) {
  const names = existsSync(folder) && statSync(folder).isDirectory() ? readdirSync(folder) : [];
  return names
    .filter((name) => name.endsWith('.onnx') && !name.startsWith('.') && statSync(path.join(folder, name), { throwIfNoEntry: false })?.isFile())
    .sort();
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
  if (found !== undefined) return found;
  // A file alone is the model, whatever its name is, unless that says that it has other weights.
  const others = all.filter((file) => !isVariant(path.basename(file)));
  if (all.length === 1 && others.length === 1 && dtype === 'fp32') return others[0];
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

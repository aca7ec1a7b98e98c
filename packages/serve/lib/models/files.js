// Which file of a folder has the weights.

import { existsSync } from 'node:fs';
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

/**
 * The model file of a folder.
 * @param {string} folder
 * @param {string} dtype
 * @returns {string}
 * @throws {RepositoryError}
 */
export function modelFile(folder, dtype) {
  const names = fileNames(dtype);
  const files = names.flatMap((name) => [path.join(folder, 'onnx', name), path.join(folder, name)]);
  const found = files.find((file) => existsSync(file));
  if (found === undefined) throw new RepositoryError(`there is no ${names.join(' or ')} in ${folder} or its folder onnx`);
  return found;
}

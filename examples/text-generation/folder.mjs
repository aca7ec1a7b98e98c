// A folder of a language model as Transformers.js has it: the model in `onnx/`, the tokenizer and the configuration beside.
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { dtypesOf, fileNames, readTextFolder, RepositoryError } from 'webnn-node-serve/text';
import { PromptError } from './generator.mjs';

/** A folder that is none of a language model, or lacks a file. */
export class FolderError extends Error {
  name = 'FolderError';
}

/**
 * What a chat needs to know of a model.
 * @typedef {object} LanguageModel
 * @property {string | URL} file
 * @property {number} maxLength how many tokens it can read; Infinity if the folder does not say it
 * @property {import('./chat.mjs').TextTokenizer} tokenizer
 * @property {((messages: import('./chat.mjs').Message[]) => string) | null} render the chat template, if it has one
 * @property {ReadonlySet<number>} stop tokens that end an answer
 * @property {import('webnn-node-serve/text').SamplingConfig} sampling
 */

/**
 * The path of the model with weights of a data type.
 * @param {string} folder
 * @param {string} dtype
 */
async function modelFile(folder, dtype) {
  const onnx = path.join(folder, 'onnx');
  const files = existsSync(onnx) ? await readdir(onnx) : [];
  const names = fileNames(dtype);
  const found = names.find((name) => files.includes(name));
  if (found !== undefined) return path.join(onnx, found);
  const dtypes = dtypesOf(files);
  const hint = dtypes.length === 0 ? '' : `; there is --dtype ${dtypes.join(', ')}`;
  throw new FolderError(`there is no ${names.join(' or ')} in ${onnx}${hint}`);
}

/**
 * Reads all files of a folder but the model itself.
 * @param {string} folder
 * @param {string} dtype of the weights: fp32, fp16, q8, q4, ...
 * @returns {Promise<LanguageModel>}
 * @throws {FolderError}
 */
export async function readFolder(folder, dtype) {
  const file = await modelFile(folder, dtype);
  try {
    const { tokenizer, maxLength, render, stop, generation } = await readTextFolder(folder);
    return { file, tokenizer, maxLength, render: render && refusing(render), stop, sampling: generation.sampling };
  } catch (cause) {
    if (!(cause instanceof RepositoryError)) throw cause;
    throw new FolderError(`${cause.message}; expected a model for Transformers.js`, { cause });
  }
}

/**
 * A chat template whose refusals are those of a prompt.
 * @param {NonNullable<LanguageModel['render']>} render
 * @returns {NonNullable<LanguageModel['render']>}
 */
const refusing = (render) => (messages) => {
  try {
    return render(messages);
  } catch (cause) {
    throw new PromptError(/** @type {Error} */ (cause).message, { cause });
  }
};

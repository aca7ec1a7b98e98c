// Which kind of model a folder holds, and loads it.

import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { inspectModel } from 'webnn-node/onnx';
import { hasCache } from 'webnn-node-text/decoder';
import { RepositoryError } from '../registry/repository.js';
import { readTextFolder } from '../text/folder.js';
import { Embedder } from './embedder.js';
import { checkContent, modelFile } from './files.js';
import { Generator } from './generator.js';
import { TensorModel } from './tensor-model.js';

/**
 * What a model needs of the server.
 * @typedef {object} Services
 * @property {import('../registry/config.js').ModelConfig} config
 * @property {import('../batcher/turns.js').Turns} turns
 * @property {import('../batcher/executor.js').Observer} observer
 */

/** @typedef {TensorModel | Embedder | Generator} Model */

/** A step of sentence-transformers behind the model, which only models for embeddings have. */
const SENTENCE_FILES = ['modules.json', '1_Pooling/config.json'];

/**
 * What a model does, as its files show it.
 * @param {string} location folder
 * @param {string} file of the weights
 * @returns {Model['kind']}
 */
function kindOf(location, file) {
  if (!existsSync(path.join(location, 'tokenizer.json'))) return 'tensors';
  if (SENTENCE_FILES.some((name) => existsSync(path.join(location, name)))) return 'embeddings';
  const { inputs, outputs } = inspectModel(file);
  // A decoder that makes vectors has states and no scores of tokens.
  return hasCache(inputs) && outputs.some(({ name }) => name === 'logits') ? 'generation' : 'embeddings';
}

/**
 * Loads a version of a model.
 * @param {string} location a folder or an .onnx file
 * @param {Services} services
 * @returns {Promise<Model>}
 * @throws {RepositoryError} if its files do not fit together
 */
export async function loadVersion(location, services) {
  const { config } = services;
  const isFolder = statSync(location).isDirectory();
  const file = isFolder ? modelFile(location, config.dtype) : location;
  checkContent(file);
  const kind = config.kind ?? (isFolder ? kindOf(location, file) : 'tensors');
  if (kind === 'tensors') return TensorModel.load(file, services);
  if (!isFolder) throw new RepositoryError(`kind is ${kind}, which needs a folder with tokenizer.json; ${location} is a file`);
  const folder = await readTextFolder(location);
  if (kind === 'generation') return Generator.load(file, folder, services);
  const { sentence, maxLength } = folder;
  // The length of sentence-transformers' files is a setting, often below what the model reads.
  const own = {
    maxLength: Math.min(maxLength, config.maxLength ?? sentence.maxLength ?? Infinity),
    sentence: { ...sentence, prompt: config.prompt ?? sentence.prompt },
  };
  return Embedder.load(file, { ...folder, ...own }, services);
}

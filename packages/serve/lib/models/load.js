// Which kind of model a folder holds, and loads it.

import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { inspectModel } from 'webnn-node/onnx';
import { hasCache } from 'webnn-node-text/decoder';
import { readTextFolder } from '../text/folder.js';
import { Embedder } from './embedder.js';
import { modelFile } from './files.js';
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

/**
 * Loads a version of a model.
 * @param {string} location a folder or an .onnx file
 * @param {Services} services
 * @returns {Promise<Model>}
 */
export async function loadVersion(location, services) {
  if (!statSync(location).isDirectory()) return TensorModel.load(location, services);
  const file = modelFile(location, services.config.dtype);
  if (!existsSync(path.join(location, 'tokenizer.json'))) return TensorModel.load(file, services);
  const folder = await readTextFolder(location);
  return hasCache(inspectModel(file).inputs) ? Generator.load(file, folder, services) : Embedder.load(file, folder, services);
}

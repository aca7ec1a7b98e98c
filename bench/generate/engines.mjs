// The engines to measure, and their installation.

import { createRequire } from 'node:module';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { installLocked } from '../../scripts/setup.mjs';

/** The name of this package as an engine. */
export const OURS = 'webnn-node';

/** The engine that runs GGUF. */
export const LLAMA = 'node-llama-cpp';

/** Engines whose tokens are the reference for the others; the first available one is used. */
export const REFERENCES = ['onnxruntime-node', 'transformers-onnxruntime-node', OURS];

const SERVER = fileURLToPath(new URL('serve.mjs', import.meta.url));

/** Redirects imports of onnxruntime-node to this package. */
const REGISTER = pathToFileURL(createRequire(import.meta.url).resolve('webnn-node-ort/register')).href;

/**
 * Modules of engines/, and flags of Node.
 *
 * @type {Record<string, { module: string, flags?: string[] }>}
 */
const ENGINES = {
  [OURS]: { module: 'webnn-node' },
  'transformers-webnn-node-ort': { module: 'transformers', flags: ['--import', REGISTER] },
  'onnxruntime-node': { module: 'onnxruntime-node' },
  'transformers-onnxruntime-node': { module: 'transformers' },
  [LLAMA]: { module: 'node-llama-cpp' },
};

export const ENGINE_NAMES = Object.keys(ENGINES);

/**
 * Returns the command that serves an engine, for EngineProcess.
 *
 * @param {string} name
 */
export function commandOf(name) {
  const { module, flags = [] } = ENGINES[name];
  return [process.execPath, ...flags, SERVER, new URL(`engines/${module}.mjs`, import.meta.url).href];
}

/** Installs the engines' packages. node-llama-cpp has its prebuilt libraries as packages. */
export const installEngines = () => installLocked('the npm packages to compare with', fileURLToPath(new URL('.', import.meta.url)));

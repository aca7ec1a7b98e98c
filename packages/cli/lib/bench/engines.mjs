// The engines that are written in JavaScript. The repository's benchmark has more, in other languages.

import { fileURLToPath } from 'node:url';
import { EngineProcess } from './process.mjs';

/**
 * Modules with a function `load`, see types.d.mts.
 *
 * @type {Record<string, URL>}
 */
export const ENGINES = {
  'webnn-node': new URL('webnn-node.mjs', import.meta.url),
  'onnxruntime-node': new URL('onnxruntime-node.mjs', import.meta.url),
};

const SERVER = fileURLToPath(new URL('serve.mjs', import.meta.url));

/**
 * Returns the command that serves an engine, for EngineProcess.
 *
 * @param {URL} module
 * @returns {string[]}
 */
export const commandOf = (module) => [process.execPath, SERVER, module.href];

/**
 * Starts an engine.
 *
 * @param {string} name
 */
export const startEngine = (name) => new EngineProcess(name, commandOf(ENGINES[name]));

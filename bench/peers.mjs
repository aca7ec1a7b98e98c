// The engines that can be measured, and their installation.

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commandOf, ENGINES as IN_JAVASCRIPT } from '../packages/cli/lib/bench/engines.mjs';
import { pythonEnvironment } from '../scripts/python.mjs';
import { installLocked } from '../scripts/setup.mjs';
import { convertForNcnn } from './ncnn.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const inEngines = (/** @type {string} */ file) => join(here, 'engines', file);

/** The name of this package as an engine. */
export const OURS = 'webnn-node';

/** Returns the command of an engine in JavaScript. */
const javaScript = (/** @type {URL} */ module) => async () => commandOf(module);

/** Returns the command of a module for serve.py. */
const python = (/** @type {string} */ module) => async () => [await benchPython(), inEngines('serve.py'), module];

/**
 * PyTorch, in the environment of `program`, or in one of its own because it is large.
 *
 * @param {boolean} compiled
 * @param {'float32' | 'float16'} precision
 * @returns {GpuEngineKind}
 */
const torch = (compiled, precision) => ({
  command: async (program) => [program ?? (await torchPython()), inEngines('serve.py'), 'peer_torch'],
  options: { device: 'cuda', compiled, precision },
  ...(precision === 'float16' ? { kind: 'float16' } : {}),
});

/** Python with the packages of requirements-torch.txt. */
export function torchPython() {
  return pythonEnvironment('bench-torch', { requirements: join(here, 'requirements-torch.txt') });
}

/** Python with the packages of requirements.txt. */
export function benchPython() {
  return pythonEnvironment('bench', { requirements: join(here, 'requirements.txt'), pip: ['--no-deps'] });
}

export const installNpmPeers = () => installLocked('the npm packages to compare with', here);

/**
 * @typedef {object} EngineKind
 * @property {() => Promise<string[]>} command that starts it, see process.mjs
 * @property {() => Promise<void>} [install]
 * @property {Partial<import('../packages/cli/lib/bench/types.mjs').LoadRequest>} [options] for `load`, in addition to
 *   the model
 * @property {(model: import('./models.mjs').BenchModel) => Promise<string>} [prepare] returns the model for its `load`,
 *   if that is not the file. @throws {Error} for a model that it does not support
 */

/** @type {Record<string, EngineKind>} */
export const ENGINES = {
  [OURS]: { command: javaScript(IN_JAVASCRIPT[OURS]) },
  'onnxruntime-node': { command: javaScript(IN_JAVASCRIPT['onnxruntime-node']), install: installNpmPeers, options: { from: here } },
  onnxruntime: { command: python('peer_onnxruntime') },
  openvino: { command: python('peer_openvino') },
  ncnn: { command: python('peer_ncnn'), prepare: async (model) => convertForNcnn(await benchPython(), model) },
};

/**
 * @typedef {object} GpuEngineKind
 * @property {(program?: string) => Promise<string[]>} command that starts it, with the caller's Python
 * @property {import('../packages/cli/lib/bench/types.mjs').EngineOptions} options for `load`
 * @property {import('./types.mjs').Kind} [kind] type of its computation, if not the model's
 */

/** @type {Record<string, GpuEngineKind>} the engines that compute on a GPU */
export const GPU_ENGINES = {
  [OURS]: { ...ENGINES[OURS], options: { device: 'gpu' } },
  pytorch: torch(false, 'float32'),
  'pytorch-compiled': torch(true, 'float32'),
  'pytorch-float16': torch(false, 'float16'),
  'pytorch-compiled-float16': torch(true, 'float16'),
};

/** The names of the engines on a GPU other than this package. */
export const GPU_PEERS = Object.keys(GPU_ENGINES).filter((name) => name !== OURS);

/** The command of the engine that measures graphs of one operator. */
export const ratesCommand = javaScript(new URL('engines/gpu-rates.mjs', import.meta.url));

/** The names of the engines other than this package. */
export const PEERS = Object.keys(ENGINES).filter((name) => name !== OURS);

/**
 * Installs the packages of engines.
 *
 * @param {string[]} names
 */
export async function install(names) {
  for (const name of names) {
    await ENGINES[name].install?.();
    await ENGINES[name].command();
  }
}

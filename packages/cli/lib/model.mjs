// Opens models from files through the public API.
import { inspectModel, loadModel } from 'webnn-node/onnx';
import { isFloat } from 'webnn-node-text/elements';
import { UsageError } from './errors.mjs';
import { requireFile } from './files.mjs';
import { assignSources, readInputs } from './inputs.mjs';
import { checkInputOptions, pictureOptions } from './options.mjs';
import { withProgress } from './progress.mjs';

/**
 * Describes the model in a file without building it.
 * @param {string} path
 * @param {Record<string, number>} [freeDimensions]
 * @returns {Promise<import('webnn-node/onnx').OnnxInspection>}
 * @throws {Failure | UsageError}
 */
export async function readModel(path, freeDimensions = {}) {
  await requireFile(path, 'model');
  try {
    return inspectModel(path, { freeDimensions });
  } catch (caught) {
    const error = /** @type {NodeJS.ErrnoException} */ (caught);
    if (error.code !== 'ERR_WEBNN_UNKNOWN_DIMENSION') throw error;
    throw new UsageError(error.message.replace('inspectModel', '--free-dimension'), { cause: error });
  }
}

/**
 * Loads the model of a file.
 * @template T
 * @param {string} path
 * @param {{ freeDimensions: Record<string, number>, device?: 'cpu' | 'gpu', threads?: number, cache?: string | boolean | import('webnn-node/onnx').OnnxCacheOptions }} options
 *   `threads` on the CPU
 * @param {(opened: Omit<import('./types.mjs').Opened, 'description'>) => Promise<T>} use
 *   called with the model, which is destroyed afterwards
 * @returns {Promise<T>}
 * @throws {Error} if the GPU is asked for, and none can be used
 */
export async function withLoaded(path, { freeDimensions, device = 'cpu', threads, cache }, use) {
  const model = await withProgress('loading the model', () => loadModel(path, { freeDimensions, device, numThreads: threads, cache }));
  try {
    return await use({ context: model.context, model });
  } finally {
    model.destroy();
  }
}

/**
 * Builds the model of a file for known shapes; for a model that is cut, its first stage.
 * @template T
 * @param {string} path
 * @param {{ freeDimensions: Record<string, number>, shapes?: Record<string, readonly number[]>, device?: 'cpu' | 'gpu', threads?: number, cache?: string | boolean }}
 *   options `shapes` of inputs that `freeDimensions` do not determine; others as for `withLoaded`
 * @param {(opened: import('./types.mjs').Opened) => Promise<T>} use
 *   called with the model, which is destroyed afterwards
 * @returns {Promise<T>}
 */
export async function withModel(path, { shapes = {}, ...options }, use) {
  return withLoaded(path, options, async (opened) => {
    const description = await withProgress('building the graph', () => opened.model.describe(shapes));
    return use({ ...opened, description });
  });
}

/**
 * Returns the tensors of all inputs according to the options of a command.
 * @param {Pick<import('webnn-node/onnx').OnnxInspection | import('webnn-node/onnx').OnnxModel, 'inputs' | 'optionalInputs'>} model
 * @param {import('./types.mjs').Options} options
 * @param {import('./inputs.mjs').Source} [fallback] source of inputs without a value
 * @returns {Promise<import('./inputs.mjs').Feeds>}
 */
export async function readFeeds(model, options, fallback) {
  const sources = assignSources(options.input ?? [], model.inputs, model.optionalInputs);
  const inputs = [...model.inputs, ...model.optionalInputs.filter(({ name }) => sources.has(name))];
  const sourceOf = (/** @type {import('webnn-node/onnx').OnnxValueInfo} */ { name, dataType }) => ({
    kind: (sources.get(name) ?? fallback)?.kind,
    isFloat: isFloat(dataType),
  });
  checkInputOptions(options, inputs.map(sourceOf));
  return readInputs(inputs, sources, {
    freeDimensions: options.freeDimension ?? {},
    fallback,
    randomRange: options.randomRange,
    picture: pictureOptions(options),
  });
}

// Models in files, opened through the public API.
import { ml } from 'webnn-node';
import { inspectModel, loadModel } from 'webnn-node/onnx';
import { UsageError } from './errors.mjs';
import { requireFile } from './files.mjs';
import { printable } from './format.mjs';
import { assignSources, readInputs } from './inputs.mjs';
import { pictureOptions } from './options.mjs';
import { withProgress } from './progress.mjs';

/** The symbolic names in the shapes of a model's inputs. */
export function symbolsOf(inputs) {
  return [...new Set(inputs.flatMap(({ shape }) => (shape ?? []).filter((dimension) => typeof dimension === 'string')))];
}

/**
 * What a file says about its model, without building it.
 * @param {string} path
 * @param {Record<string, number>} [freeDimensions]
 * @returns {Promise<import('webnn-node/onnx').OnnxInspection>} as `inspectModel` returns it; its inputs keep the
 *   symbolic names
 * @throws {Failure | UsageError}
 */
export async function readModel(path, freeDimensions = {}) {
  await requireFile(path, 'model');
  const { inputs } = inspectModel(path);
  try {
    return { ...inspectModel(path, { freeDimensions }), inputs };
  } catch (error) {
    if (error.code !== 'ERR_WEBNN_UNKNOWN_DIMENSION') throw error;
    throw new UsageError(error.message.replace('inspectModel', '--free-dimension'), { cause: error });
  }
}

/**
 * Builds the model of a file for known shapes.
 * @template T
 * @param {string} path
 * @param {{ freeDimensions: Record<string, number>, shapes?: Record<string, number[]>, threads?: number }} options `shapes`
 *   of inputs that `freeDimensions` do not tell
 * @param {(opened: { context: MLContext, model: OnnxModel, specialization: OnnxSpecialization }) => Promise<T>} use what
 *   to do with it; it is destroyed afterwards
 * @returns {Promise<T>}
 */
export async function withModel(path, { freeDimensions, shapes = {}, threads }, use) {
  const context = await ml.createContext(threads === undefined ? {} : { numThreads: threads });
  try {
    const opened = await withProgress('building the graph', async () => {
      const model = await loadModel(path, { context, freeDimensions });
      return { context, model, specialization: await model.compile(shapes) };
    });
    return await use(opened);
  } finally {
    context.destroy();
  }
}

/**
 * The tensors of all inputs, as the options of a command say.
 * @param {{ name: string, dataType: string, shape: (number | string)[] }[]} inputs of the model
 * @param {object} options see `inputOptions`
 * @param {import('./inputs.mjs').Source} [fallback] what inputs without a value get
 * @returns {Promise<import('./inputs.mjs').Feeds>}
 */
export function readFeeds(inputs, options, fallback) {
  return readInputs(inputs, assignSources(options.input ?? [], inputs), {
    freeDimensions: options.freeDimension ?? {},
    fallback,
    randomRange: options.randomRange,
    picture: pictureOptions(options),
  });
}

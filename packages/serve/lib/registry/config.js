// Settings of a model: the server's defaults, and model.json beside the model.

import { readFile } from 'node:fs/promises';
import { POOLINGS } from '../models/pooling.js';
import { RepositoryError } from './repository.js';

/**
 * @typedef {object} ModelConfig
 * @property {number} maxBatch rows of a batch; 1 joins no requests
 * @property {number} maxDelayMs how long a request waits for others to join it; 0 joins those that wait already
 * @property {number} maxQueue requests that wait for the model; more are refused
 * @property {number} maxQueueMs a request that would wait longer is refused
 * @property {number} maxTextQueueMs the same for texts to generate, each of which takes seconds
 * @property {number} maxSequences texts that are generated at the same time
 * @property {number | null} threads of the model; null takes one per core
 * @property {'auto' | 'cpu' | 'gpu'} device
 * @property {number | null} idleMs without a request after which the model frees what it can make again; null never does
 * @property {string} dtype which of several weight files: fp32 is onnx/model.onnx, q8 onnx/model_quantized.onnx, others onnx/model_DTYPE.onnx
 * @property {number | 'all'} versions how many of the newest to load
 * @property {Record<string, number>} freeDimensions sizes of free dimensions by name
 * @property {boolean | string} cache whether packed weights are kept on disk, where processes share them, or the folder
 * @property {'embeddings' | 'generation' | 'tensors' | null} kind what the model does; null takes what its folder shows
 * @property {string | null} output of an encoder, which is read; null takes the one that is known to be meant
 * @property {import('../models/pooling.js').Pooling | import('../models/pooling.js').Pooling[] | 'none' | null} pooling how the states
 *   of tokens become a vector; null does what the folder says
 * @property {boolean | null} normalize whether vectors have length 1; null does what the folder says
 * @property {string | null} prompt in front of each text of an embedding; null takes the folder's default
 * @property {number | null} maxLength tokens of prompt and answer, or of a text; null takes the model's own, less for large caches
 * @property {number | null} maxTokens of an answer where the caller does not say it; null takes that of generation_config.json
 */

/** @type {ModelConfig} */
export const DEFAULTS = Object.freeze({
  maxBatch: 16,
  maxDelayMs: 0,
  maxQueue: 256,
  maxQueueMs: 2000,
  maxTextQueueMs: 60_000,
  maxSequences: 8,
  threads: null,
  device: 'cpu',
  idleMs: null,
  dtype: 'fp32',
  versions: 1,
  freeDimensions: {},
  cache: false,
  kind: null,
  output: null,
  pooling: null,
  normalize: null,
  prompt: null,
  maxLength: null,
  maxTokens: null,
});

const KINDS = ['embeddings', 'generation', 'tensors'];

const isWhole = (/** @type {number} */ lowest) => (/** @type {unknown} */ value) => Number.isSafeInteger(value) && /** @type {number} */ (value) >= lowest;
const isMs = (/** @type {unknown} */ value) => typeof value === 'number' && value >= 0 && value < 2 ** 31;
const isPooling = (/** @type {unknown} */ value) => typeof value === 'string' && Object.hasOwn(POOLINGS, value);
/** A setting that is left to the model's folder. */
const orNull = (/** @type {(value: any) => boolean} */ test) => (/** @type {unknown} */ value) => value === null || test(value);
const isPath = (/** @type {unknown} */ value) => typeof value === 'string' && value !== '';
const isSizes = (/** @type {any} */ value) => value !== null && typeof value === 'object' && Object.values(value).every(isWhole(0));

/**
 * Where a model computes, where its packed weights are kept, and how long it stays ready without requests, as `loadModel()` takes it.
 * @param {ModelConfig} config
 */
export const loadOptions = ({ device, threads, idleMs, cache }) => ({
  device,
  cache,
  ...(threads === null ? {} : { numThreads: threads }),
  ...(idleMs === null ? {} : { idle: idleMs }),
});

/** What each setting may be. @type {Record<keyof ModelConfig, [test: (value: any) => boolean, expected: string]>} */
const RULES = {
  maxBatch: [isWhole(1), 'a whole number from 1'],
  maxDelayMs: [isMs, 'milliseconds from 0'],
  maxQueue: [isWhole(0), 'a whole number from 0'],
  maxQueueMs: [isMs, 'milliseconds from 0'],
  maxTextQueueMs: [isMs, 'milliseconds from 0'],
  maxSequences: [isWhole(1), 'a whole number from 1'],
  threads: [(value) => value === null || (isWhole(1)(value) && value <= 1024), 'a whole number from 1 to 1024'],
  device: [(value) => ['auto', 'cpu', 'gpu'].includes(value), '"auto", "cpu" or "gpu"'],
  idleMs: [orNull((value) => isWhole(1)(value) && value < 2 ** 32), 'milliseconds from 1'],
  dtype: [(value) => typeof value === 'string' && /^\w+$/.test(value), 'a name such as "q8"'],
  versions: [(value) => value === 'all' || isWhole(1)(value), '"all" or a whole number from 1'],
  freeDimensions: [isSizes, 'an object with a size for each name'],
  cache: [(value) => typeof value === 'boolean' || isPath(value), 'true, false or the path of a folder'],
  kind: [orNull((value) => KINDS.includes(value)), KINDS.map((kind) => JSON.stringify(kind)).join(', ')],
  output: [orNull((value) => typeof value === 'string'), 'the name of an output'],
  pooling: [
    orNull((value) => value === 'none' || isPooling(value) || (Array.isArray(value) && value.length > 0 && value.every(isPooling))),
    `"none", ${Object.keys(POOLINGS).join(', ')}, or a list of these`,
  ],
  normalize: [orNull((value) => typeof value === 'boolean'), 'true or false'],
  prompt: [orNull((value) => typeof value === 'string'), 'a text'],
  maxLength: [orNull(isWhole(1)), 'a whole number from 1'],
  maxTokens: [orNull(isWhole(1)), 'a whole number from 1'],
};

/**
 * Checks settings.
 * @param {unknown} given
 * @param {string} where names them in errors
 * @returns {Partial<ModelConfig>}
 * @throws {RepositoryError}
 */
export function checkConfig(given, where) {
  if (given === null || typeof given !== 'object' || Array.isArray(given)) throw new RepositoryError(`${where}: expected an object with settings`);
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(RULES, name)) throw new RepositoryError(`${where}: there is no setting ${name}; expected ${Object.keys(RULES).join(', ')}`);
    const [test, expected] = RULES[/** @type {keyof ModelConfig} */ (name)];
    if (!test(value)) throw new RepositoryError(`${where}: ${name} is ${JSON.stringify(value)}, expected ${expected}`);
  }
  return given;
}

/**
 * The settings of a model.
 * @param {string | null} file model.json
 * @param {Partial<ModelConfig>} defaults of the server
 * @returns {Promise<ModelConfig>}
 * @throws {RepositoryError}
 */
export async function readConfig(file, defaults) {
  if (file === null) return { ...DEFAULTS, ...defaults };
  const text = await readFile(file, 'utf8');
  let given;
  try {
    given = JSON.parse(text);
  } catch (cause) {
    throw new RepositoryError(`${file} is not JSON: ${/** @type {Error} */ (cause).message}`, { cause });
  }
  return { ...DEFAULTS, ...defaults, ...checkConfig(given, file) };
}

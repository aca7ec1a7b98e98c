'use strict';

/** Descriptions and profiles of compiled graphs, and of the system. */

const { slots: contextSlots } = require('./context.js');
const { slots: graphSlots } = require('./graph.js');
const native = require('./native.js');
const { slots: tensorSlots } = require('./tensor.js');
const { conversionError, dictionary, enforcedUnsignedLong, interfaceType, record, requireArguments } = require('./webidl.js');

const { Promise } = globalThis;
const reject = Promise.reject.bind(Promise);

const toContext = interfaceType('MLContext', contextSlots);
const toGraph = interfaceType('MLGraph', graphSlots);
const toNamedTensors = record(interfaceType('MLTensor', tensorSlots));

/** Maximum number of runs of a profile, and of warm-up runs. */
const MAX_RUNS = 10_000;

/** @type {import('./internal.js').Converter<{runs: number, warmup: number}>} */
const toProfileOptions = dictionary([
  { name: 'runs', type: 'unsigned long', convert: countConverter(1), default: 10 },
  { name: 'warmup', type: 'unsigned long', convert: countConverter(0), default: 2 },
]);

/**
 * Creates the converter for a number of runs.
 *
 * @param {number} least
 * @returns {import('./internal.js').Converter<number>}
 */
function countConverter(least) {
  return (value, what) => {
    const count = enforcedUnsignedLong(value, what);
    if (count < least || count > MAX_RUNS) {
      throw new TypeError(`${what} is ${count}, expected ${least} to ${MAX_RUNS}`);
    }
    return count;
  };
}

/** @param {unknown} context */
function describeContext(context) {
  requireArguments('describeContext', arguments.length, 1);
  return toContext(context, 'describeContext: context').describe('describeContext');
}

/** @param {unknown} graph */
function describeGraph(graph) {
  requireArguments('describeGraph', arguments.length, 1);
  return toGraph(graph, 'describeGraph: graph').describe('describeGraph');
}

/**
 * @param {unknown} context
 * @param {unknown} graph
 * @param {unknown} inputs
 * @param {unknown} outputs
 * @param {unknown} [options]
 */
function profileGraph(context, graph, inputs, outputs, options = undefined) {
  try {
    requireArguments('profileGraph', arguments.length, 4);
    return toContext(context, 'profileGraph: context').profile(
      toGraph(graph, 'profileGraph: graph'),
      toNamedTensors(inputs, 'profileGraph: inputs'),
      toNamedTensors(outputs, 'profileGraph: outputs'),
      toProfileOptions(options, 'profileGraph: options'),
    );
  } catch (error) {
    return reject(error);
  }
}

function systemInfo() {
  return JSON.parse(native.systemInfo());
}

/**
 * @param {string} operation
 * @param {unknown} folder
 * @param {(id: number, folder: string | undefined) => void} begin
 * @returns {Promise<any>}
 */
async function onFolder(operation, folder, begin) {
  if (folder !== undefined && (typeof folder !== 'string' || folder === '')) {
    throw conversionError(`${operation}: folder`, undefined, 'the path of a folder', folder);
  }
  const id = native.completions.nextId();
  begin(id, folder);
  return native.completions.outcome(id, (error, /** @type {[string]} */ made) => {
    if (error !== undefined) {
      throw error;
    }
    return JSON.parse(made[0]);
  });
}

/** @param {string} [folder] */
const listCache = (folder = undefined) => onFolder('listCache', folder, native.listCache);

/**
 * @param {string} [folder]
 * @param {number} [bytes]
 */
async function pruneCache(folder = undefined, bytes = undefined) {
  if (bytes !== undefined && !(typeof bytes === 'number' && bytes >= 0)) {
    throw conversionError('pruneCache: bytes', undefined, 'a number of bytes', bytes);
  }
  return onFolder('pruneCache', folder, (id, path) => native.pruneCache(id, path, bytes));
}

/** @param {string} [folder] */
const verifyCache = (folder = undefined) => onFolder('verifyCache', folder, native.verifyCache);

module.exports = { describeContext, describeGraph, listCache, profileGraph, pruneCache, systemInfo, verifyCache };

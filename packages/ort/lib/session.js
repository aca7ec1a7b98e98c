'use strict';

/** Sessions: the handlers behind the InferenceSession of onnxruntime-common. */

const { MLTensor } = require('webnn-node');

const { failure, load, messageOf } = require('./load.js');
const { Log, SEVERITIES } = require('./log.js');
const { checkRunOptions, toLocations, toSessionSettings } = require('./options.js');
const { Profile } = require('./profile.js');
const { hasLocation, toFeed, toTarget, toTensor } = require('./tensor.js');
const { toMetadata, toPort, TYPES } = require('./types.js');

/** @typedef {import('webnn-node/onnx').OnnxModel} OnnxModel */
/** @typedef {import('webnn-node/onnx').OnnxValueInfo} OnnxValueInfo */
/** @typedef {import('onnxruntime-common').Tensor} Tensor */
/** @typedef {import('./types.js').Port} Port */
/** @typedef {Record<string, import('webnn-node').MLTensor | 'tensor' | null>} Fetches of `OnnxModel.run` */

/** Types that Tensors on a device cannot have. */
const ONLY_ON_CPU = ['float64', 'int16', 'uint16', 'string'];

/** @typedef {Map<string, ReturnType<typeof toTarget> | null>} Targets preallocated outputs by name, null for a new Tensor */

/** An InferenceSessionHandler. */
class Session {
  #Tensor;
  #model;
  #log;
  #profile;
  #inputs;
  #outputs;
  /** Outputs that are not tensors: onnxruntime-node lists them, and fails when they are fetched. */
  #others;
  /** Locations of the outputs that stay on the device, by name. @type {Map<string, string>} */
  #onDevice = new Map();
  #isDisposed = false;
  /** Number of runs in progress. */
  #running = 0;
  /** Called when the last of them ends. */
  #idle = () => {};

  /**
   * @param {import('./backend.js').Common} common
   * @param {OnnxModel} model
   * @param {{log: InstanceType<typeof Log>, profile: InstanceType<typeof Profile> | undefined, isGpu: boolean}} parts
   * @param {object} options of the session
   */
  constructor(common, model, { log, profile, isGpu }, options) {
    this.#Tensor = common.Tensor;
    this.#model = model;
    this.#log = log;
    this.#profile = profile;
    this.inputNames = model.inputs.map(({ name }) => name);
    this.outputNames = model.outputs.map(({ name }) => name);
    this.inputMetadata = model.inputs.map(toMetadata);
    this.outputMetadata = model.outputs.map(toMetadata);
    const location = hasLocation(common.Tensor) ? undefined : 'cpu';
    this.#inputs = model.inputs.map((info) => toPort(info, 'input', location));
    const isTensor = (/** @type {OnnxValueInfo} */ { type }) => type.startsWith('tensor(');
    this.#outputs = new Map(model.outputs.filter(isTensor).map((info) => [info.name, toPort(info, 'output', location)]));
    this.#others = model.outputs.filter((info) => !isTensor(info));
    this.#keepOnDevice(toLocations(options, this.outputNames), isGpu);
  }

  /**
   * @param {Map<string, string>} locations by the names of outputs
   * @param {boolean} isGpu
   */
  #keepOnDevice(locations, isGpu) {
    for (const [name, location] of locations) {
      const type = this.#outputs.get(name)?.type ?? '';
      const factory = location === 'ml-tensor' ? this.#Tensor.fromMLTensor : location === 'gpu-buffer' && isGpu ? this.#Tensor.fromGpuBuffer : undefined;
      if (factory !== undefined && !ONLY_ON_CPU.includes(type)) {
        this.#onDevice.set(name, location);
      } else if (location !== 'cpu') {
        this.#log.warn(`preferredOutputLocation of ${JSON.stringify(name)} is ${location}, but it is returned on the CPU`);
      }
    }
  }

  /**
   * @param {Record<string, unknown>} feeds
   * @param {Record<string, unknown>} fetches
   * @param {object} options
   */
  async run(feeds, fetches, options = {}) {
    this.#requireAlive();
    const values = Object.create(null);
    for (const input of this.#inputs) {
      values[input.name] = toFeed(feeds[input.name], input);
    }
    const targets = this.#targets(fetches);
    checkRunOptions(options);
    // Checked again: getters of the arguments may have released the session.
    this.#requireAlive();
    this.#running += 1;
    try {
      const wanted = this.#fetches(targets);
      const results = await (this.#profile?.isActive ? this.#profiled(this.#profile, values, wanted) : this.#model.run(values, wanted));
      return this.#tensors(results, targets);
    } catch (error) {
      throw failure(error, messageOf(error));
    } finally {
      this.#running -= 1;
      if (this.#running === 0) {
        this.#idle();
      }
    }
  }

  /**
   * Runs the model, and records the times of its steps.
   *
   * @param {InstanceType<typeof Profile>} profile
   * @param {Record<string, import('webnn-node/onnx').OnnxFeed>} values
   * @param {Fetches} fetches
   * @returns {Promise<Record<string, any>>} results of `OnnxModel.run`
   */
  async #profiled(profile, values, fetches) {
    const begin = performance.now();
    const { results, graphs } = await this.#model.profile(values, fetches);
    profile.record('model_run', begin);
    profile.recordSteps(graphs, begin);
    return results;
  }

  /**
   * Returns the fetched outputs.
   *
   * @param {Record<string, unknown>} fetches
   * @returns {Targets}
   */
  #targets(fetches) {
    /** @type {Targets} */
    const targets = new Map();
    const other = this.#others.find(({ name }) => name in fetches);
    if (other !== undefined) {
      throw new Error(`run: output ${JSON.stringify(other.name)} is of type ${other.type}, expected a tensor: ask for other outputs only`);
    }
    for (const [name, output] of this.#outputs) {
      if (name in fetches) {
        const target = fetches[name];
        targets.set(name, target === null || target === undefined ? null : toTarget(target, output));
      }
    }
    return targets;
  }

  /**
   * Returns the fetches for `OnnxModel.run`.
   *
   * @param {Targets} targets
   */
  #fetches(targets) {
    /** @type {Fetches} */
    const fetches = Object.create(null);
    for (const { name } of this.#others) {
      fetches[name] = null;
    }
    for (const name of this.#outputs.keys()) {
      const target = targets.get(name);
      if (target === undefined) {
        fetches[name] = null;
      } else if (target?.device !== undefined) {
        fetches[name] = target.device;
      } else if (target === null && this.#onDevice.has(name)) {
        fetches[name] = 'tensor';
      }
    }
    return fetches;
  }

  /**
   * @param {Record<string, any>} results of `OnnxModel.run`
   * @param {Targets} targets
   * @returns {Record<string, Tensor>}
   */
  #tensors(results, targets) {
    /** @type {Record<string, Tensor>} */
    const tensors = Object.create(null);
    for (const [name, target] of targets) {
      const { type } = /** @type {Port} */ (this.#outputs.get(name));
      const result = results[name];
      if (result instanceof MLTensor) {
        tensors[name] = this.#deviceTensor(result, type, this.#onDevice.get(name) ?? 'ml-tensor');
        continue;
      }
      target?.write(result);
      tensors[name] = toTensor(this.#Tensor, type, result);
    }
    return tensors;
  }

  /**
   * Creates a Tensor on the device. `getData()` downloads it.
   *
   * @param {import('webnn-node').MLTensor} mlTensor
   * @param {string} type
   * @param {string} location
   * @returns {Tensor}
   */
  #deviceTensor(mlTensor, type, location) {
    const { array: TypedArray } = /** @type {{array: any}} */ (TYPES.get(type));
    const options = {
      dataType: /** @type {any} */ (type),
      dims: [...mlTensor.shape],
      download: async () => new TypedArray(await this.#model.context.readTensor(mlTensor)),
      dispose: () => mlTensor.destroy(),
    };
    return location === 'gpu-buffer'
      ? this.#Tensor.fromGpuBuffer(/** @type {any} */ (mlTensor), options)
      : this.#Tensor.fromMLTensor(/** @type {any} */ (mlTensor), options);
  }

  /** Frees the session once the runs in progress have ended. */
  async dispose() {
    this.#requireAlive();
    this.#isDisposed = true;
    if (this.#running > 0) {
      await new Promise((resolve) => {
        this.#idle = () => resolve(undefined);
      });
    }
    this.#profile?.end();
    this.#model.destroy();
  }

  /** Does nothing, as in onnxruntime-node: `enableProfiling` starts the profile. */
  startProfiling() {}

  /** Writes the profile. */
  endProfiling() {
    this.#requireAlive();
    this.#profile?.end();
  }

  #requireAlive() {
    if (this.#isDisposed) {
      throw new Error('Session already disposed: it was released.');
    }
  }
}

/**
 * @param {import('./backend.js').Common} common whose Tensors the session returns
 * @param {string | Uint8Array} source
 * @param {object} options of the session
 * @returns {Promise<Session>}
 * @throws {TypeError | RangeError} for options that are wrong
 * @throws {Error} if the model cannot be loaded
 */
async function createSession(common, source, options) {
  const settings = toSessionSettings(options);
  const { logLevel = 'warning' } = common.env;
  const log = new Log(settings.severity ?? SEVERITIES.indexOf(logLevel), settings.logId);
  settings.warnings.forEach((message) => log.warn(message));
  settings.notes.forEach((message) => log.info(message));
  const begin = performance.now();
  const { model, isGpu } = await load(source, settings, log);
  const profile = settings.profilePrefix === undefined ? undefined : new Profile(settings.profilePrefix, begin, log);
  profile?.record(typeof source === 'string' ? 'model_loading_uri' : 'model_loading_array', begin);
  try {
    const session = new Session(common, model, { log, profile, isGpu }, options);
    profile?.record('session_initialization', begin);
    return session;
  } catch (error) {
    profile?.end();
    model.destroy();
    throw error;
  }
}

module.exports = { createSession };

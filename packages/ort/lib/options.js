'use strict';

/** Validates options in the order of onnxruntime-node, with errors of the same classes. */

const { isUint8Array } = require('node:util').types;

const { SEVERITIES } = require('./log.js');

/** The most threads that a context can have. */
const MAX_THREADS = 1024;

/** The longest time without a run, in milliseconds, that `loadModel()` takes. */
const MAX_IDLE = 2 ** 32 - 1;

/** Keeps packed weights of all sessions on disk that do not say otherwise. */
const CACHE_VARIABLE = 'WEBNN_CACHE';

/** What its values mean, and those of `extra.webnn.cache`; others are folders. */
const CACHE_VALUES = new Map([
  ['1', true],
  ['true', true],
  ['0', false],
  ['off', false],
  ['false', false],
  ['', false],
]);

/** Options that are validated but have no effect. */
const WITHOUT_EFFECT = ['interOpNumThreads', 'graphOptimizationLevel', 'enableCpuMemArena', 'enableMemPattern', 'executionMode', 'freeDimensionOverrides'];

/** @typedef {(value: unknown, what: string) => void} Check throws a TypeError or RangeError that begins with `what` */

/**
 * Formats a value for messages.
 *
 * @param {unknown} value
 */
function shown(value) {
  return typeof value === 'string'
    ? JSON.stringify(value.slice(0, 100))
    : value === null || typeof value === 'number'
      ? String(value)
      : `of type ${typeof value}`;
}

/** @type {(value: any) => boolean} */
const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function';

/**
 * @param {'boolean' | 'number' | 'string'} type
 * @returns {Check}
 */
const ofType = (type) => (value, what) => {
  if (typeof value !== type) {
    throw new TypeError(`${what} is ${shown(value)}, expected a ${type}`);
  }
};

const requireNumber = ofType('number');
const requireString = ofType('string');
const requireBoolean = ofType('boolean');

/** @type {(most: number) => Check} */
const upTo = (most) => (value, what) => {
  requireNumber(value, what);
  if (!Number.isInteger(value) || Number(value) < 0 || Number(value) > most) {
    throw new RangeError(`${what} is ${value}, expected a whole number from 0 to ${most}`);
  }
};

/** @type {(...names: string[]) => Check} */
const oneOf =
  (...names) =>
  (value, what) => {
    requireString(value, what);
    if (!names.includes(String(value))) {
      throw new TypeError(`${what} is ${shown(value)}, expected one of ${names.join(', ')}`);
    }
  };

/** @type {Check} objects of objects of strings */
const requireEntries = (value, what) => {
  if (!isObject(value)) {
    throw new TypeError(`${what} is ${shown(value)}, expected an object`);
  }
  for (const [name, entry] of Object.entries(/** @type {object} */ (value))) {
    (isObject(entry) ? requireEntries : requireString)(entry, `${what}.${name}`);
  }
};

/**
 * Entries of nested objects by the names that onnxruntime-node passes on: `session.set_denormal_as_zero`.
 *
 * @param {object} extra of strings
 * @returns {[name: string, text: string][]}
 */
const flatEntries = (extra, prefix = '') =>
  Object.entries(extra).flatMap(([name, entry]) => (isObject(entry) ? flatEntries(entry, `${prefix}${name}.`) : [[prefix + name, entry]]));

/** Whether packed weights are kept on disk, or in which folder. @param {string | undefined} text */
const toCache = (text = '') => CACHE_VALUES.get(text) ?? text;

/** @type {Record<string, (text: string, what: string) => object>} settings by the names of entries that this package knows */
const OWN_ENTRIES = {
  'webnn.cache': (text) => ({ cache: toCache(text) }),
  'webnn.idle': (text, what) => {
    if (!/^\d+$/.test(text) || Number(text) < 1 || Number(text) > MAX_IDLE) {
      throw new RangeError(`${what} is ${shown(text)}, expected milliseconds from 1 to ${MAX_IDLE}`);
    }
    return { idle: Number(text) };
  },
};

/**
 * Reads the entries of `extra` that this package knows.
 *
 * @param {object} extra
 * @returns {{settings: {cache?: boolean | string, idle?: number}, hasOthers: boolean}}
 * @throws {TypeError | RangeError} naming the entry
 */
function toExtraSettings(extra) {
  const settings = { cache: toCache(process.env[CACHE_VARIABLE]) };
  const entries = flatEntries(extra);
  const own = entries.filter(([name]) => name.startsWith('webnn.'));
  for (const [name, text] of own) {
    if (!Object.hasOwn(OWN_ENTRIES, name)) {
      throw new TypeError(`sessionOptions.extra has an entry ${shown(name)}, expected one of ${Object.keys(OWN_ENTRIES).join(', ')}`);
    }
    Object.assign(settings, OWN_ENTRIES[name](text, `sessionOptions.extra: ${name}`));
  }
  return { settings, hasOthers: own.length < entries.length };
}

/** @type {Check} */
const requireStrings = (value, what) => {
  if (!Array.isArray(value)) {
    throw new TypeError(`${what} is ${shown(value)}, expected an array of strings`);
  }
  value.forEach((item, at) => requireString(item, `${what}[${at}]`));
};

/** @type {Record<string, Check>} of the provider `webgpu` */
const WEBGPU_OPTIONS = {
  name: () => {},
  preferredLayout: requireString,
  validationMode: requireString,
  weightLoadAcceleration: requireString,
  storageBufferCacheMode: requireString,
  uniformBufferCacheMode: requireString,
  queryResolveBufferCacheMode: requireString,
  defaultBufferCacheMode: requireString,
  enableRobustness: requireBoolean,
  enableMatmulFp32Accumulation: requireBoolean,
  forceCpuNodeNames: requireStrings,
};

/** @type {Check} */
const requireProviders = (value, what) => {
  if (!Array.isArray(value)) {
    throw new TypeError(`${what} is ${shown(value)}, expected an array`);
  }
  for (const [at, provider] of value.entries()) {
    if (provider?.deviceId !== undefined && provider.name !== 'webgpu') {
      requireNumber(provider.deviceId, `${what}[${at}].deviceId`);
    }
    for (const name of provider?.name === 'webgpu' ? Object.keys(provider) : []) {
      const check = Object.hasOwn(WEBGPU_OPTIONS, name) ? WEBGPU_OPTIONS[name] : undefined;
      if (check === undefined) {
        throw new TypeError(`${what}[${at}] has an option ${shown(name)} that webgpu does not have`);
      }
      check(provider[name], `${what}[${at}].${name}`);
    }
  }
};

/** @type {Check} */
const requireExternalData = (value, what) => {
  if (value === null || value === undefined) {
    return;
  }
  if (!Array.isArray(value)) {
    throw new TypeError(`${what} is ${shown(value)}, expected an array`);
  }
  value.forEach((/** @type {any} */ file, /** @type {number} */ at) => {
    if (!isObject(file)) {
      throw new TypeError(`${what}[${at}] is ${shown(file)}, expected an object with path and data`);
    }
    requireString(file.path, `${what}[${at}].path`);
    if (!isUint8Array(file.data)) {
      throw new TypeError(`${what}[${at}].data is ${shown(file.data)}, expected a Uint8Array`);
    }
  });
};

const requireThreads = upTo(2 ** 32 - 1);
const requireSeverity = upTo(SEVERITIES.length - 1);

/** @type {Record<string, Check>} in the order of onnxruntime-node */
const SESSION_OPTIONS = {
  executionProviders: requireProviders,
  intraOpNumThreads: requireThreads,
  interOpNumThreads: requireThreads,
  graphOptimizationLevel: oneOf('disabled', 'basic', 'extended', 'layout', 'all'),
  enableCpuMemArena: requireBoolean,
  enableMemPattern: requireBoolean,
  optimizedModelFilePath: requireString,
  extra: requireEntries,
  executionMode: oneOf('sequential', 'parallel'),
  logId: requireString,
  logSeverityLevel: requireSeverity,
  enableProfiling: requireBoolean,
  externalData: requireExternalData,
};

/** @type {Record<string, Check>} */
const RUN_OPTIONS = { logSeverityLevel: requireSeverity, tag: requireString };

/**
 * Reads each given option once, and validates it.
 *
 * @param {object} options
 * @param {Record<string, Check>} checks by the names of options
 * @param {string} what name of the options in messages
 * @returns {Record<string, any>}
 */
function checked(options, checks, what) {
  /** @type {Record<string, unknown>} */
  const values = {};
  for (const [name, check] of Object.entries(checks)) {
    if (name in options) {
      values[name] = Reflect.get(options, name);
      check(values[name], `${what}.${name}`);
    }
  }
  return values;
}

/**
 * @typedef {object} SessionSettings the effects of a session's options
 * @property {'cpu' | 'gpu'} device
 * @property {boolean} mayFallBack whether the CPU may replace a missing GPU
 * @property {number | undefined} numThreads
 * @property {Record<string, Uint8Array>} externalData by location
 * @property {boolean | string} [cache] whether packed weights are kept on disk, or in which folder
 * @property {number} [idle] milliseconds without a run after which memory is freed
 * @property {number | undefined} severity
 * @property {string} logId
 * @property {string | undefined} profilePrefix
 * @property {string[]} warnings about effects that differ from onnxruntime's
 * @property {string[]} notes about options without effect
 */

/**
 * @param {object} options of a session; since 1.17, onnxruntime-common has removed unknown providers
 * @returns {SessionSettings}
 * @throws {TypeError | RangeError} naming the option
 */
function toSessionSettings(options) {
  const values = checked(options, SESSION_OPTIONS, 'sessionOptions');
  const providers = (values.executionProviders ?? []).map((/** @type {any} */ provider) => (typeof provider === 'string' ? provider : provider.name));
  const { intraOpNumThreads = 0 } = values;
  const warnings = [];
  if (intraOpNumThreads > MAX_THREADS) {
    warnings.push(`intraOpNumThreads is ${intraOpNumThreads}, but only ${MAX_THREADS} threads are used`);
  }
  if (values.optimizedModelFilePath) {
    warnings.push('optimizedModelFilePath has no effect: optimized models cannot be written; extra.webnn.cache keeps packed weights');
  }
  const { settings, hasOthers } = toExtraSettings(values.extra ?? {});
  const withoutEffect = [...WITHOUT_EFFECT.filter((name) => name in options), ...(hasOthers ? ['extra'] : [])];
  return {
    device: providers.includes('webgpu') ? 'gpu' : 'cpu',
    mayFallBack: providers.includes('cpu'),
    numThreads: intraOpNumThreads === 0 ? undefined : Math.min(intraOpNumThreads, MAX_THREADS),
    externalData: Object.fromEntries((values.externalData ?? []).map((/** @type {any} */ { path, data }) => [path, data])),
    ...settings,
    severity: values.logSeverityLevel,
    logId: values.logId ?? '',
    profilePrefix: values.enableProfiling ? profilePrefix(options) : undefined,
    warnings,
    notes: withoutEffect.map((name) => `${name} has no effect`),
  };
}

/**
 * @param {object} options
 * @returns {string}
 */
function profilePrefix(options) {
  const prefix = Reflect.get(options, 'profileFilePrefix');
  requireString(prefix, 'sessionOptions.profileFilePrefix, which enableProfiling needs,');
  return prefix;
}

/**
 * @param {object} options of a run
 * @throws {TypeError | RangeError} naming the option
 */
function checkRunOptions(options) {
  checked(options, RUN_OPTIONS, 'runOptions');
}

/** Locations of outputs in onnxruntime. */
const LOCATIONS = ['cpu', 'cpu-pinned', 'texture', 'gpu-buffer', 'ml-tensor'];

/**
 * @param {object} options of a session
 * @param {readonly string[]} outputs names of the outputs of the model
 * @returns {Map<string, string>} locations by the names of outputs
 * @throws {TypeError} naming the option
 */
function toLocations(options, outputs) {
  const what = 'sessionOptions.preferredOutputLocation';
  const requireLocation = oneOf(...LOCATIONS);
  const wanted = 'preferredOutputLocation' in options ? options.preferredOutputLocation : undefined;
  if (wanted === null || wanted === undefined) {
    return new Map();
  }
  if (!isObject(wanted)) {
    requireLocation(wanted, what);
    return new Map(outputs.map((name) => [name, String(wanted)]));
  }
  const locations = Object.entries(/** @type {object} */ (wanted));
  for (const [name, location] of locations) {
    if (!outputs.includes(name)) {
      throw new TypeError(`${what} names ${shown(name)}, which is not an output of the model; the outputs are ${outputs.join(', ')}`);
    }
    requireLocation(location, `${what}.${name}`);
  }
  return new Map(locations);
}

module.exports = { checkRunOptions, shown, toLocations, toSessionSettings };

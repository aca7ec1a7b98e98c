'use strict';

/** The backends of onnxruntime-common that create sessions. */

const { createRequire } = require('node:module');
const { resolve } = require('node:path');

const { createSession } = require('./session.js');

/** @typedef {typeof import('onnxruntime-common')} Common a copy of onnxruntime-common */

/** The execution providers that there are a backend for. */
const PROVIDERS = ['cpu', 'webgpu'];

/**
 * One above that of onnxruntime-node: where both are loaded with one onnxruntime-common, the first to register stays, and the
 * second does not throw.
 */
const PRIORITY = 101;

/** Where all copies of this package in the process find each other's backends. */
const BACKENDS = Symbol.for('webnn-node-ort.backends');

/** @type {WeakMap<object, import('onnxruntime-common').Backend>} by the registries that they are in */
const backends = (/** @type {any} */ (globalThis)[BACKENDS] ??= new WeakMap());

/**
 * The backend whose sessions give Tensors of this copy of onnxruntime-common.
 *
 * @param {Common} common
 * @returns {import('onnxruntime-common').Backend}
 */
function createBackend(common) {
  return {
    async init() {},
    createInferenceSessionHandler: (source, options = {}) => createSession(common, source, options),
  };
}

/** @param {Common} common */
function registerBackend(common) {
  // A backend that is registered twice must be the same object.
  const backend = backends.get(common.registerBackend) ?? createBackend(common);
  backends.set(common.registerBackend, backend);
  for (const name of PROVIDERS) {
    common.registerBackend(name, backend, PRIORITY);
  }
}

/**
 * The path of the onnxruntime-common that the program itself requires, or undefined if it has none.
 *
 * @returns {string | undefined}
 */
function programCommon() {
  const program = require.main?.filename ?? process.argv[1] ?? 'repl';
  try {
    return createRequire(resolve(program)).resolve('onnxruntime-common');
  } catch (error) {
    if (!['MODULE_NOT_FOUND', 'ERR_PACKAGE_PATH_NOT_EXPORTED'].includes(/** @type {NodeJS.ErrnoException} */ (error).code ?? '')) {
      throw error;
    }
    return undefined;
  }
}

/**
 * Registers with the onnxruntime-common of this package, and with that of the program: programs also create sessions with theirs.
 *
 * @param {Common} common that of this package
 */
function registerBackends(common) {
  registerBackend(common);
  const path = programCommon();
  if (path === undefined || path === require.resolve('onnxruntime-common')) {
    return;
  }
  try {
    registerBackend(require(path));
  } catch (error) {
    // Versions before 1.17 know no such backends. A program that has one for something else can still use this package.
    if (!(error instanceof TypeError)) {
      throw error;
    }
  }
}

/** @returns {import('../index.js').SupportedBackend[]} */
function listSupportedBackends() {
  return PROVIDERS.map((name) => ({ name, bundled: true }));
}

module.exports = { listSupportedBackends, registerBackends };

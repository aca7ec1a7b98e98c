'use strict';

/** The backends of onnxruntime-common that create sessions. */

const { createSession } = require('./session.js');

/** @typedef {typeof import('onnxruntime-common')} Common a copy of onnxruntime-common, of any version from 1.14 on */

/** The release of onnxruntime-node whose interface this is. */
const VERSION = '1.30.0';

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
 */
function createBackend(common) {
  /** @type {import('onnxruntime-common').Backend['createInferenceSessionHandler']} */
  const create = (source, options = {}) => createSession(common, source, options);
  return {
    async init() {},
    createInferenceSessionHandler: create,
    // Its name before 1.17.
    createSessionHandler: create,
  };
}

/** @param {Common} common that creates sessions here from now on */
function registerBackend(common) {
  // A backend that is registered twice must be the same object.
  const backend = backends.get(common.registerBackend) ?? createBackend(common);
  backends.set(common.registerBackend, backend);
  for (const name of PROVIDERS) {
    common.registerBackend(name, backend, PRIORITY);
  }
}

/**
 * Makes a copy of onnxruntime-common what onnxruntime-node makes of it.
 *
 * @param {Common} common
 */
function prepare(common) {
  registerBackend(common);
  // Versions before 1.16 have no versions.
  if (common.env.versions !== undefined) {
    // Configurable: another copy of this package may share onnxruntime-common.
    Object.defineProperty(common.env.versions, 'node', { value: VERSION, enumerable: true, configurable: true });
  }
}

/** @returns {import('../index.js').SupportedBackend[]} */
function listSupportedBackends() {
  return PROVIDERS.map((name) => ({ name, bundled: true }));
}

module.exports = { listSupportedBackends, prepare, registerBackend };

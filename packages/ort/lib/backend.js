'use strict';

/** Registers this package with onnxruntime-common. */

const { createSession } = require('./session.js');

/** @typedef {typeof import('onnxruntime-common')} Common a copy of onnxruntime-common, of any version from 1.14 on */

/** The release of onnxruntime-node whose interface this package has. */
const VERSION = '1.30.0';

/** Names of execution providers. */
const PROVIDERS = ['cpu', 'webgpu'];

/**
 * One above onnxruntime-node's priority: if both share an onnxruntime-common, this backend wins, and registering the
 * other one does not throw.
 */
const PRIORITY = 101;

/** Shared by all copies of this package in the process. */
const BACKENDS = Symbol.for('webnn-node-ort.backends');

const shared = /** @type {any} */ (globalThis);
/** @type {WeakMap<object, import('onnxruntime-common').Backend>} by the registries that they are in */
const backends = (shared[BACKENDS] ??= new WeakMap());

/**
 * A backend whose sessions return Tensors of this copy of onnxruntime-common.
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

/** @param {Common} common */
function registerBackend(common) {
  // Registering another object with the same priority throws.
  const backend = backends.get(common.registerBackend) ?? createBackend(common);
  backends.set(common.registerBackend, backend);
  for (const name of PROVIDERS) {
    common.registerBackend(name, backend, PRIORITY);
  }
}

/**
 * Sets up a copy of onnxruntime-common as onnxruntime-node does.
 *
 * @param {Common} common
 */
function prepare(common) {
  registerBackend(common);
  // Before 1.16, there is no `env.versions`.
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

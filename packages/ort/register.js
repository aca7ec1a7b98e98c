'use strict';

/**
 * Redirects `import` and `require` of onnxruntime-node to this package, in the whole program:
 * `node --import webnn-node-ort/register app.mjs`, or `--require`.
 */

const Module = require('node:module');
const { pathToFileURL } = require('node:url');

const { commonFor, sourceOf, urlFor } = require('./lib/copies.js');

/** Names of the main module. Other files of the original package are not redirected. */
const SPECIFIERS = ['onnxruntime-node', 'onnxruntime-node/dist/index', 'onnxruntime-node/dist/index.js'];

/** @typedef {(request: string, parent?: NodeJS.Module, ...rest: unknown[]) => any} Load */
/** @typedef {{_load: Load, _resolveFilename: Load, registerHooks?: (hooks: object) => void}} Insides of all versions of Node */

const modules = /** @type {typeof Module & Insides} */ (/** @type {unknown} */ (Module));
const { _load: load, _resolveFilename: resolveFilename } = modules;

modules._load = function (request, parent, ...rest) {
  if (!SPECIFIERS.includes(request)) {
    return load.call(this, request, parent, ...rest);
  }
  // Loaded on demand: the flag costs next to nothing if onnxruntime-node is not used.
  return require('./lib/stand-in.js').standInFor(commonFor(parent?.filename));
};

// For `require.resolve`.
modules._resolveFilename = function (request, ...rest) {
  return SPECIFIERS.includes(request) ? require.resolve('./index.js') : resolveFilename.call(this, request, ...rest);
};

if (modules.registerHooks !== undefined) {
  modules.registerHooks({
    /**
     * @param {string} specifier
     * @param {{parentURL?: string}} context
     * @param {(specifier: string, context: object) => object} next
     */
    resolve: (specifier, context, next) =>
      SPECIFIERS.includes(specifier) ? { url: urlFor(commonFor(context.parentURL)), shortCircuit: true } : next(specifier, context),
    /**
     * @param {string} url
     * @param {object} context
     * @param {(url: string, context: object) => object} next
     */
    load(url, context, next) {
      const source = sourceOf(url);
      return source === undefined ? next(url, context) : { format: 'module', source, shortCircuit: true };
    },
  });
} else {
  // Before Node 22.15, hooks run on a separate thread.
  Module.register(pathToFileURL(require.resolve('./lib/hooks.mjs')), { data: SPECIFIERS });
}

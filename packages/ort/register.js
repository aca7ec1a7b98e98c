'use strict';

/**
 * Puts this package in the place of onnxruntime-node, for `import` and `require` of the whole program:
 * `node --import webnn-node-ort/register app.mjs`, or `--require`.
 */

const Module = require('node:module');
const { pathToFileURL } = require('node:url');

const { commonFor, sourceOf, urlFor } = require('./lib/copies.js');

/** What programs call the main module. Other files of the package are none of ours, and are left where they are. */
const SPECIFIERS = ['onnxruntime-node', 'onnxruntime-node/dist/index', 'onnxruntime-node/dist/index.js'];

/** @typedef {(request: string, parent?: NodeJS.Module, ...rest: unknown[]) => any} Load */
/** @typedef {{_load: Load, _resolveFilename: Load, registerHooks?: (hooks: object) => void}} Insides of all versions of Node */

const modules = /** @type {typeof Module & Insides} */ (/** @type {unknown} */ (Module));
const { _load: load, _resolveFilename: resolveFilename } = modules;

modules._load = function (request, parent, ...rest) {
  if (!SPECIFIERS.includes(request)) {
    return load.call(this, request, parent, ...rest);
  }
  // Only now: most processes that a program starts do not compute.
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
  // Node before 22.15 calls hooks in a thread of their own.
  Module.register(pathToFileURL(require.resolve('./lib/hooks.mjs')), { data: SPECIFIERS });
}

'use strict';

/**
 * Puts this package in the place of onnxruntime-node, for `import` and `require` of the whole program:
 * `node --import webnn-node-ort/register app.mjs`, or `--require`.
 */

const Module = require('node:module');
const { pathToFileURL } = require('node:url');

const path = require.resolve('./index.js');
const url = pathToFileURL(path).href;

/** What programs call the main module. Other files of the package are none of ours, and are left where they are. */
const SPECIFIERS = ['onnxruntime-node', 'onnxruntime-node/dist/index', 'onnxruntime-node/dist/index.js'];

/** @typedef {(request: string, ...rest: unknown[]) => string} ResolveFilename */

const modules = /** @type {typeof Module & {_resolveFilename: ResolveFilename, registerHooks?: (hooks: object) => void}} */ (Module);
const resolveFilename = modules._resolveFilename;

// `require` and `require.resolve`, of all versions of Node.
modules._resolveFilename = function (request, ...rest) {
  return SPECIFIERS.includes(request) ? path : resolveFilename.call(this, request, ...rest);
};

if (modules.registerHooks !== undefined) {
  modules.registerHooks({
    /**
     * @param {string} specifier
     * @param {object} context
     * @param {(specifier: string, context: object) => object} next
     */
    resolve: (specifier, context, next) => (SPECIFIERS.includes(specifier) ? { url, shortCircuit: true } : next(specifier, context)),
  });
} else {
  // Node before 22.15 calls hooks in a thread of their own, which has a module of its own.
  Module.register(pathToFileURL(require.resolve('./lib/hooks.mjs')), { data: { specifiers: SPECIFIERS, url } });
}

'use strict';

/**
 * Finds the copies of onnxruntime-common in a program: each part of the program gets the one that it was written for.
 */

const { createRequire } = require('node:module');
const { resolve } = require('node:path');
const { pathToFileURL } = require('node:url');

/** Path of the copy of this package. */
const OWN = require.resolve('onnxruntime-common');

/**
 * @param {string} from path or URL of the requiring file
 * @param {string} request
 * @returns {string | undefined} the path of the module, if it is installed
 */
function find(from, request) {
  try {
    return createRequire(from).resolve(request);
  } catch (error) {
    if (!['MODULE_NOT_FOUND', 'ERR_PACKAGE_PATH_NOT_EXPORTED'].includes(/** @type {NodeJS.ErrnoException} */ (error).code ?? '')) {
      throw error;
    }
    return undefined;
  }
}

/**
 * Finds the onnxruntime-common that the program itself requires.
 *
 * @returns {string | undefined} its path; undefined if there is none, or if it is that of this package
 */
function programCommon() {
  const path = find(resolve(require.main?.filename ?? process.argv[1] ?? 'repl'), 'onnxruntime-common');
  return path === OWN ? undefined : path;
}

/**
 * Finds the onnxruntime-common that the original onnxruntime-node would use; if there is no original, that of the
 * loading file.
 *
 * @param {string | undefined} from path or file URL of the loading file
 * @returns {string} its path
 */
function commonFor(from) {
  if (from === undefined || !/^(file:|\/|[a-z]:[\\/]|\\\\)/i.test(from)) {
    return OWN;
  }
  return find(find(from, 'onnxruntime-node/package.json') ?? from, 'onnxruntime-common') ?? OWN;
}

/**
 * Returns the URL that import statements resolve to: the main module of this package, with a query if it is for another
 * copy.
 */
function urlFor(/** @type {string} */ path) {
  const url = pathToFileURL(require.resolve('../index.js'));
  if (path !== OWN) {
    url.searchParams.set('common', path);
  }
  return url.href;
}

/**
 * Returns the source of the module at a URL of `urlFor()` with a query.
 *
 * @param {string} url
 * @returns {string | undefined} undefined for any other URL
 */
function sourceOf(url) {
  if (!url.startsWith(`${urlFor(OWN)}?common=`)) {
    return undefined;
  }
  const path = new URL(url).searchParams.get('common') ?? OWN;
  const names = [...Object.keys(require(path)), 'listSupportedBackends'];
  return `import { createRequire } from 'node:module';
    const standIn = createRequire(import.meta.url)('./lib/stand-in.js').standInFor(${JSON.stringify(path)});
    export default standIn;
    export const { ${names.join(', ')} } = standIn;`;
}

module.exports = { commonFor, OWN, programCommon, sourceOf, urlFor };

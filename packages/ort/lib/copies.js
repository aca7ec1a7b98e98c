'use strict';

/** The copies of onnxruntime-common in a program. Each part of it gets the one that it was written for. */

const { createRequire } = require('node:module');
const { resolve } = require('node:path');
const { pathToFileURL } = require('node:url');

/** That of this package. */
const OWN = require.resolve('onnxruntime-common');

/**
 * @param {string | URL} from a path or URL of the file that asks
 * @param {string} request
 * @returns {string | undefined} the path of a module, or undefined if there is none
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
 * The onnxruntime-common that the program itself requires.
 *
 * @returns {string | undefined} its path; undefined if there is none, or if it is that of this package
 */
function programCommon() {
  const path = find(resolve(require.main?.filename ?? process.argv[1] ?? 'repl'), 'onnxruntime-common');
  return path === OWN ? undefined : path;
}

/**
 * The onnxruntime-common that onnxruntime-node would have, for a file that loads it.
 *
 * @param {string | undefined} from path or file URL of that
 * @returns {string} its path
 */
function commonFor(from) {
  if (from === undefined || !/^(file:|\/|[a-z]:[\\/]|\\\\)/i.test(from)) {
    return OWN;
  }
  return find(find(from, 'onnxruntime-node/package.json') ?? from, 'onnxruntime-common') ?? OWN;
}

/** The URL of the module that import statements get: the file of this package, with a query if the copy is not its own. */
function urlFor(/** @type {string} */ path) {
  const url = pathToFileURL(require.resolve('../index.js'));
  if (path !== OWN) {
    url.searchParams.set('common', path);
  }
  return url.href;
}

/**
 * The text of such a module.
 *
 * @param {string} url
 * @returns {string | undefined} undefined for all other modules
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

'use strict';

/** The option `cache` of contexts and models: packed weights on disk. */

const process = require('node:process');

const { quote } = require('./errors.js');
const { errorOf } = require('./native.js');
const { conversionError, isObject } = require('./webidl.js');

/**
 * Creates the converter of the option, whose object form may have these members.
 *
 * @param {readonly ('folder' | 'verify' | 'byContents')[]} members
 * @returns {(value: unknown, what: string) => import('./internal.js').CacheOptions | undefined}
 */
const cacheConverter = (members) => (value, what) => {
  if (value === undefined || value === false) {
    return undefined;
  }
  if (value === true || (typeof value === 'string' && value !== '')) {
    return { folder: value === true ? undefined : value, verify: false, byContents: false };
  }
  if (!isObject(value)) {
    throw conversionError(what, undefined, `a boolean, the path of a folder, or an object with ${members.join(', ')}`, value);
  }
  const unknown = Object.keys(value).find((name) => !members.some((member) => member === name));
  if (unknown !== undefined) {
    throw errorOf('ERR_WEBNN_UNKNOWN_OPTION', `${what}: there is no option ${quote(unknown)}, the options are ${members.join(', ')}`);
  }
  const { folder, verify = false, byContents = false } = /** @type {Record<string, unknown>} */ (value);
  if (folder !== undefined && (typeof folder !== 'string' || folder === '')) {
    throw conversionError(`${what}.folder`, undefined, 'the path of a folder', folder);
  }
  const flag = (/** @type {string} */ name, /** @type {unknown} */ given) => {
    if (typeof given !== 'boolean') {
      throw conversionError(`${what}.${name}`, undefined, 'a boolean', given);
    }
    return given;
  };
  return { folder, verify: flag('verify', verify), byContents: flag('byContents', byContents) };
};

/**
 * @param {string} operation
 * @param {string} problem why packed weights are not kept on disk
 */
const warnAboutCache = (operation, problem) =>
  process.emitWarning(`${operation}: packed weights are not kept on disk: ${problem}`, { type: 'WebnnWarning', code: 'WARN_WEBNN_CACHE' });

module.exports = { cacheConverter, warnAboutCache };

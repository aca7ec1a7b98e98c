'use strict';

const common = require('onnxruntime-common');
const { listSupportedBackends, registerBackends } = require('./lib/backend.js');

/** The release of onnxruntime-node whose interface this is. */
const VERSION = '1.30.0';

/**
 * Exports everything that a module exports. Import statements find the names of a CommonJS module by reading its text, and know
 * a call by this name.
 *
 * @param {Record<string, any>} module
 * @param {Record<string, any>} exports
 */
function __exportStar(module, exports) {
  for (const name of Object.keys(module)) {
    Object.defineProperty(exports, name, { enumerable: true, get: () => module[name] });
  }
}

Object.defineProperty(exports, '__esModule', { value: true });
__exportStar(require('onnxruntime-common'), exports);
exports.listSupportedBackends = listSupportedBackends;

registerBackends(common);
// Configurable: another copy of this package may share onnxruntime-common.
Object.defineProperty(common.env.versions, 'node', { value: VERSION, enumerable: true, configurable: true });

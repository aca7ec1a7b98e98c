'use strict';

const common = require('onnxruntime-common');
const { listSupportedBackends, prepare, registerBackend } = require('./lib/backend.js');
const { programCommon } = require('./lib/copies.js');

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

prepare(common);

// Programs also create sessions with their own onnxruntime-common.
const other = programCommon();
if (other !== undefined) {
  registerBackend(require(other));
}

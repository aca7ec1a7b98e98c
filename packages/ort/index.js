'use strict';

const common = require('onnxruntime-common');
const { listSupportedBackends, prepare, registerBackend } = require('./lib/backend.js');
const { programCommon } = require('./lib/copies.js');

/**
 * Re-exports a module. Node scans the text of CommonJS modules for names to import, and recognizes calls of a function
 * with this name.
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

// Programs also create sessions with an onnxruntime-common of their own.
const other = programCommon();
if (other !== undefined) {
  registerBackend(require(other));
}

#!/usr/bin/env node
'use strict';

// `npx webnn-node` where only the library is installed: runs the command line if the project has it, and says how to get
// it if not. Where webnn-node-cli is installed, its command has the same name, and npm keeps either of the two.

const { createRequire } = require('node:module');
const path = require('node:path');
const { pathToFileURL } = require('node:url');

const COMMAND_LINE = 'webnn-node-cli';

/** @returns {string | undefined} the manifest of the command line, as this package or the project in this folder finds it */
function findManifest() {
  for (const from of [__filename, path.join(process.cwd(), 'package.json')]) {
    try {
      return createRequire(from).resolve(`${COMMAND_LINE}/package.json`);
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'MODULE_NOT_FOUND') throw error;
    }
  }
  return undefined;
}

const manifest = findManifest();
if (manifest === undefined) {
  process.stderr.write(
    `webnn-node: the command line is in the package ${COMMAND_LINE}, which is not installed here.\n` +
      `  npx ${['webnn-node-cli', ...process.argv.slice(2)].join(' ')}\n` +
      '      runs it without installing it\n' +
      `  npm install --save-dev ${COMMAND_LINE}\n` +
      '      installs it: then npx webnn-node runs it\n',
  );
  process.exitCode = 1;
} else {
  import(pathToFileURL(path.join(path.dirname(manifest), require(manifest).bin['webnn-node'])).href);
}

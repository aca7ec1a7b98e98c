import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { runNode } from '../lib/processes.mjs';
import { temporaryFolder } from '../lib/folders.mjs';
import { root } from '../../scripts/process.mjs';
import { thisPlatform } from '../../scripts/setup.mjs';
import { exception } from '../lib/exceptions.mjs';
import { require } from './helpers.mjs';
import { defined } from '../lib/types.mjs';

const errors = require('../../lib/errors.js');

test('labels lose control characters and bidirectional controls, nothing else', () => {
  const bidirectional = '\u061C\u200E\u200F\u202A\u202B\u202C\u202D\u202E\u2066\u2067\u2068\u2069';
  const controls = '\u0000\u0007\t\n\r\u001B\u007F\u0085\u009B\u2028\u2029';
  assert.equal(errors.sanitize(`a${bidirectional}b${controls}c`), 'abc');
  const kept = 'mul#1234 שלום 😀 e\u0301 \u200D';
  assert.equal(errors.sanitize(kept), kept);
});

test('quoted text is cut by code points', () => {
  assert.equal(errors.quote('x\ny'), '"xy"');
  assert.equal(errors.quote('😀'.repeat(101)), `"${'😀'.repeat(100)}…"`);
});

test('the subject of a message has the label in front', () => {
  assert.equal(errors.subject('stem', 'conv2d'), '[stem] conv2d');
  assert.equal(errors.subject('', 'conv2d'), 'conv2d');
});

test('native codes become the errors of the API', () => {
  assert.ok(errors.errorFromCode('TypeError', 'm') instanceof TypeError);
  for (const code of ['InvalidStateError', 'NotSupportedError', 'OperationError', 'UnknownError']) {
    const error = errors.errorFromCode(code, `[l] op:\u202E ${code}`);
    exception(code)(error);
    assert.equal(error.message, `[l] op: ${code}`);
  }
  const defect = errors.errorFromCode('GenericFailure', 'm');
  assert.equal(Object.getPrototypeOf(defect), Error.prototype);
  assert.match(defect.message, /internal error \(GenericFailure\): m/);
});

/** How a script ends in a copy of the package that has no binary. */
function withoutBinary(t, files) {
  const directory = temporaryFolder(t, files);
  for (const entry of ['index.js', 'lib', 'package.json']) {
    cpSync(path.join(root, entry), path.join(directory, entry), { recursive: true });
  }
  return runNode(['-e', 'require("./index.js")'], { cwd: directory });
}

test('a permission that Deno lacks is asked for first', async (t) => {
  const name = `webnn-node-${thisPlatform()}`;
  const denied = 'throw new Error(\'Requires ffi access to "x.node", run again with the --allow-ffi flag\');';
  const { stderr } = await withoutBinary(t, { [`node_modules/${name}/index.js`]: denied });
  assert.match(stderr, /no usable native binary for .*\nDeno may not load native binaries: run the program with --allow-ffi\.\n/);
  assert.doesNotMatch(stderr, /npm install/);
});

test('a missing binary names the platform, the package and the reason', async (t) => {
  const { code, stderr } = await withoutBinary(t);
  assert.equal(code, 1);
  assert.match(stderr, new RegExp(`no usable native binary for ${process.platform}-${process.arch}`));
  assert.match(stderr, new RegExp(`npm install webnn-node-${process.platform}-${process.arch}`));
  assert.match(stderr, /Cannot find module 'webnn-node-/);
});

test('a binary that does not load gives the message of the system', async (t) => {
  const name = /** as in the message */ defined((await withoutBinary(t)).stderr.match(/binary for (\S+)\./))[1];
  const { stderr } = await withoutBinary(t, { [`webnn-node.${name}.node`]: 'not a library', 'node_modules/.keep': '' });
  assert.match(stderr, /webnn-node\.[\w-]+\.node: .+/);
  assert.match(stderr, /webnn-node-[\w-]+: Cannot find module/);
});

// What the module exports, and with which copies of onnxruntime-common it works.

import assert from 'node:assert/strict';
import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import * as common from 'onnxruntime-common';
import ort, { env, InferenceSession, listSupportedBackends, registerBackend, Tensor, TRACE } from 'webnn-node-ort';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { negate, require, root, runNode, runProgram, write } from './support.mjs';
import { wrong } from '../../../__test__/lib/types.mjs';

/** The CommonJS build, which this package uses. */
const own = require('onnxruntime-common');
const packageOfCommon = dirname(dirname(dirname(require.resolve('onnxruntime-common'))));

describe('module', () => {
  it('exports all of onnxruntime-common, and is one object for import and require', () => {
    assert.equal(require('webnn-node-ort'), ort);
    assert.deepEqual(Object.keys(ort).sort(), [...Object.keys(own), 'listSupportedBackends'].sort());
    for (const name of Object.keys(own)) {
      assert.equal(ort[name], own[name], name);
    }
    assert.deepEqual([InferenceSession, Tensor, env, registerBackend, TRACE], [own.InferenceSession, own.Tensor, own.env, own.registerBackend, own.TRACE]);
  });

  it('tells which backends and versions there are', () => {
    assert.deepEqual(listSupportedBackends(), [
      { name: 'cpu', bundled: true },
      { name: 'webgpu', bundled: true },
    ]);
    listSupportedBackends().pop();
    assert.equal(listSupportedBackends().length, 2);
    assert.equal(env.versions.node, '1.30.0');
    assert.equal(env.versions.common, own.env.versions.common);
  });

  it('uses the class Tensor that it exports for results, whatever class the feeds are of', async () => {
    assert.notEqual(common.Tensor, Tensor);
    const session = await InferenceSession.create(negate());
    const { y } = await session.run({ x: new common.Tensor('float32', [1, 2], [2]) });
    assert.ok(y instanceof Tensor);
    assert.deepEqual([...y.data], [-1, -2]);
  });

  it('takes feeds of any object with the properties of a Tensor', async () => {
    const session = await InferenceSession.create(negate());
    const { y } = await session.run({ x: wrong({ type: 'float32', dims: [3], data: Float32Array.of(1, 2, 3), location: 'cpu' }) });
    assert.deepEqual([...y.data], [-1, -2, -3]);
  });

  it('gives sessions of the onnxruntime-common of the program Tensors of that', async (t) => {
    const project = temporaryFolder(t);
    const copy = join(project, 'node_modules', 'onnxruntime-common');
    mkdirSync(dirname(copy));
    cpSync(packageOfCommon, copy, { recursive: true });
    symlinkSync(root, join(project, 'node_modules', 'webnn-node-ort'));
    write(project, 'model.onnx', negate());
    write(
      project,
      'app.cjs',
      `
      const common = require('onnxruntime-common');
      const ort = require('webnn-node-ort');
      (async () => {
        const feeds = { x: new common.Tensor('float32', [5], [1]) };
        const theirs = await (await common.InferenceSession.create('model.onnx')).run(feeds);
        const ours = await (await ort.InferenceSession.create('model.onnx')).run(feeds);
        const isOf = (tensor) => [tensor instanceof common.Tensor, tensor instanceof ort.Tensor];
        console.log(JSON.stringify([isOf(theirs.y), isOf(ours.y), theirs.y.data[0], ours.y.data[0]]));
      })();`,
    );
    const { stdout, stderr } = await runNode(['app.cjs'], { cwd: project });
    assert.equal(stderr, '');
    assert.deepEqual(JSON.parse(stdout), [[true, false], [false, true], -5, -5]);
  });

  it('can be loaded twice with one onnxruntime-common', async () => {
    const { stdout, stderr } = await runProgram(`
      import { createRequire } from 'node:module';
      const require = createRequire(process.cwd() + '/app.js');
      const first = require('webnn-node-ort');
      for (const path of Object.keys(require.cache)) {
        if (!path.includes('onnxruntime-common') && !path.endsWith('.node')) delete require.cache[path];
      }
      const second = require('webnn-node-ort');
      console.log(first !== second, first.Tensor === second.Tensor);`);
    assert.equal(stderr, '');
    assert.equal(stdout, 'true true');
  });

  it('lets another backend of its names be registered after it', async () => {
    const { stdout, stderr } = await runProgram(`
      import { InferenceSession, registerBackend } from 'webnn-node-ort';
      const other = { async init() {}, async createInferenceSessionHandler() { throw new Error('the other one'); } };
      registerBackend('cpu', other, 100);
      registerBackend('mine', other, 100);
      await InferenceSession.create(new Uint8Array(0), { executionProviders: ['cpu'] }).catch(({ message }) => console.log(message));
      await InferenceSession.create(new Uint8Array(0), { executionProviders: ['mine'] }).catch(({ message }) => console.log(message));`);
    assert.equal(stderr, '');
    assert.match(stdout, /^Load model failed: .*\nthe other one$/);
  });
});

// `webnn-node-ort/register`: programs that load onnxruntime-node get this package.

import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { negate, root, runNode, write } from './support.mjs';

/** Loads onnxruntime-node in each way that there is, and runs a model. */
const APP = `
  import * as namespace from 'onnxruntime-node';
  import ort, { InferenceSession, Tensor, env, listSupportedBackends } from 'onnxruntime-node';
  import { createRequire } from 'node:module';
  import { Worker, isMainThread, threadId } from 'node:worker_threads';
  const require = createRequire(import.meta.url);
  const { default: dynamic } = await import('onnxruntime-node');
  const isOne = require('onnxruntime-node') === ort && dynamic === ort && namespace.Tensor === Tensor;
  const session = await InferenceSession.create('model.onnx');
  const { y } = await session.run({ x: new Tensor('float32', [1], [1]) });
  const own = require.resolve('onnxruntime-node').includes('ort');
  console.log(isMainThread ? 'main' : 'worker', isOne, own, y.data[0], listSupportedBackends().length, env.versions.node);
  if (isMainThread) new Worker(new URL(import.meta.url));`;

const EXPECTED = 'main true true -1 2 1.30.0\nworker true true -1 2 1.30.0';

/** A project that has this package, and an onnxruntime-node that must not be loaded if `hasOriginal`. */
function project(t, hasOriginal) {
  const directory = temporaryFolder(t);
  mkdirSync(join(directory, 'node_modules'));
  symlinkSync(root, join(directory, 'node_modules', 'webnn-node-ort'));
  if (hasOriginal) {
    const original = join(directory, 'node_modules', 'onnxruntime-node');
    mkdirSync(original);
    write(original, 'package.json', '{ "name": "onnxruntime-node", "version": "1.2.3", "main": "index.js" }');
    write(original, 'index.js', 'throw new Error("the original was loaded")');
  }
  write(directory, 'model.onnx', negate());
  write(directory, 'app.mjs', APP);
  write(
    directory,
    'app.cjs',
    `
    const { InferenceSession, Tensor } = require('onnxruntime-node');
    InferenceSession.create('model.onnx').then((session) => session.run({ x: new Tensor('float32', [1], [1]) })).then(({ y }) => console.log(y.data[0]));`,
  );
  return directory;
}

describe('webnn-node-ort/register', () => {
  for (const flag of ['--import', '--require']) {
    for (const hasOriginal of [false, true]) {
      it(`${flag} redirects import and require, in workers too, ${hasOriginal ? 'with' : 'without'} an onnxruntime-node`, async (t) => {
        const cwd = project(t, hasOriginal);
        assert.deepEqual(await runNode([flag, 'webnn-node-ort/register', 'app.mjs'], { cwd }), { code: 0, signal: null, stdout: EXPECTED, stderr: '' });
        assert.deepEqual(await runNode([flag, 'webnn-node-ort/register', 'app.cjs'], { cwd }), { code: 0, signal: null, stdout: '-1', stderr: '' });
      });
    }
  }

  it('gives each part of a program the onnxruntime-common that it was written for', async (t) => {
    const cwd = project(t, false);
    // Like version 1.14: Tensors are plain, backends have other names, and there are no versions.
    const old = join(cwd, 'node_modules', 'old', 'node_modules', 'onnxruntime-common');
    mkdirSync(old, { recursive: true });
    write(old, 'package.json', '{ "name": "onnxruntime-common", "version": "1.14.0", "main": "index.js" }');
    write(
      old,
      'index.js',
      `
      const backends = {};
      exports.env = {};
      exports.Tensor = class { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } };
      exports.registerBackend = (name, backend) => { backends[name] = backend; };
      exports.InferenceSession = { async create(path, options = {}) {
        const handler = await backends.cpu.createSessionHandler(path, options);
        return { run: (feeds) => handler.run(feeds, { y: null }, {}) };
      } };`,
    );
    const program = (load) => `${load}
      export default async () => {
        const session = await ort.InferenceSession.create('model.onnx');
        const big = new Float32Array(1_000_000).fill(2);
        const { y } = await session.run({ x: new ort.Tensor('float32', big, [big.length]) });
        return [y instanceof ort.Tensor, y.data[9], Object.keys(y).join()];
      };`;
    write(
      join(cwd, 'node_modules', 'old'),
      'imports.mjs',
      program("import ort, { Tensor } from 'onnxruntime-node'; if (ort.Tensor !== Tensor) throw new Error('not the same');"),
    );
    write(
      join(cwd, 'node_modules', 'old'),
      'requires.mjs',
      program("import { createRequire } from 'node:module'; const ort = createRequire(import.meta.url)('onnxruntime-node');"),
    );
    write(
      cwd,
      'both.mjs',
      `
      import { Tensor } from 'onnxruntime-node';
      import imports from './node_modules/old/imports.mjs';
      import requires from './node_modules/old/requires.mjs';
      console.log(JSON.stringify([await imports(), await requires()]), 'location' in Tensor.prototype);`,
    );
    const { stdout, stderr } = await runNode(['--import', 'webnn-node-ort/register', 'both.mjs'], { cwd });
    assert.equal(stderr, '');
    const expected = [true, -2, 'type,data,dims'];
    assert.equal(stdout, `${JSON.stringify([expected, expected])} true`);
  });

  it('loads nothing before a program asks for it', async (t) => {
    const cwd = project(t, false);
    write(cwd, 'idle.cjs', "console.log(Object.keys(require.cache).filter((file) => file.endsWith('.node') || file.includes('onnxruntime-common')).length);");
    assert.deepEqual(await runNode(['--import', 'webnn-node-ort/register', 'idle.cjs'], { cwd }), { code: 0, signal: null, stdout: '0', stderr: '' });
  });

  it('works from NODE_OPTIONS', async (t) => {
    const cwd = project(t, true);
    const env = { ...process.env, NODE_OPTIONS: '--import webnn-node-ort/register' };
    assert.deepEqual(await runNode(['app.mjs'], { cwd, env }), { code: 0, signal: null, stdout: EXPECTED, stderr: '' });
  });

  it('leaves all other modules as they are', async (t) => {
    const cwd = project(t, true);
    write(
      cwd,
      'others.mjs',
      `
      import { createRequire } from 'node:module';
      const require = createRequire(import.meta.url);
      console.log(require('onnxruntime-node/package.json').version);
      console.log(await import('onnxruntime-nodes').catch(({ code }) => code));
      try { require('onnxruntime-node/dist/binding') } catch ({ code }) { console.log(code) }`,
    );
    const { stdout } = await runNode(['--import', 'webnn-node-ort/register', 'others.mjs'], { cwd });
    assert.equal(stdout, '1.2.3\nERR_MODULE_NOT_FOUND\nMODULE_NOT_FOUND');
  });

  it('is needed: without it the original is loaded', async (t) => {
    const { code, stderr } = await runNode(['app.cjs'], { cwd: project(t, true) });
    assert.equal(code, 1);
    assert.match(stderr, /the original was loaded/);
  });
});

// Folders of models as people have them: what is a model, and what is left out with which reason.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import test, { describe } from 'node:test';
import { fileURLToPath } from 'node:url';
import pino from 'pino';
import { endOf } from '../../../__test__/lib/processes.mjs';
import { until } from '../../../__test__/lib/wait.mjs';
import { externalWeight, FLOAT, node, value, writeModel } from '../../../__test__/onnx/model-writer.mjs';
import { findModel, listModels } from '../lib/registry/repository.js';
import { DIGITS, PICTURE, postJson, repositoryOf, startServer, wordsFiles } from './support.mjs';

const PROGRAM = fileURLToPath(new URL('../bin/webnn-node-serve.js', import.meta.url));

/** Lines of a log, as objects. */
function logOf() {
  /** @type {any[]} */
  const lines = [];
  return { lines, log: pino({}, { write: (line) => lines.push(JSON.parse(line)) }) };
}

/**
 * Serves a folder, and reads what was logged.
 * @param {{ after: (done: () => void | Promise<void>) => void }} t
 * @param {import('../lib/serve.js').ServeOptions} options
 */
async function serveWithLog(t, options) {
  const { lines, log } = logOf();
  const server = await startServer(t, { ...options, log });
  const skipped = Object.fromEntries(
    lines.filter(({ reason }) => reason !== undefined).map((line) => [path.relative(String(options.models), line.path), line.reason]),
  );
  return { server, lines, skipped, names: server.registry.ready.map(({ name }) => name) };
}

/** A model that adds a weight in another file. */
const external = writeModel({
  inputs: [value('x', FLOAT, ['n'])],
  outputs: [value('y', FLOAT, ['n'])],
  weights: [externalWeight('w', [1], 'own.onnx_data', 0, 4)],
  nodes: [node('Add', ['x', 'w'], ['y'])],
});

test('the only .onnx file of a folder counts, whatever it is called, also with weights beside it', async (t) => {
  const repository = repositoryOf(t, {
    'mine/mine.onnx': DIGITS,
    'versions/1/a.onnx': DIGITS,
    'versions/3/b.onnx': DIGITS,
    'versions/old.onnx': Buffer.from('versions count more'),
    'data/own.onnx': external,
    'data/own.onnx_data': Buffer.from(Float32Array.of(5).buffer),
    'hub/onnx/something.onnx': DIGITS,
    'hub/config.json': {},
    'hidden/model.onnx': DIGITS,
    'hidden/.other.onnx': DIGITS,
    '.cache/model.onnx': DIGITS,
    'flat.onnx': external,
    'own.onnx_data': Buffer.from(Float32Array.of(7).buffer),
  });
  const { names, skipped, server } = await serveWithLog(t, { models: repository });
  assert.deepEqual(names, ['data', 'flat', 'hidden', 'hub', 'mine', 'versions']);
  assert.deepEqual(Object.keys(skipped), ['own.onnx_data']);
  assert.equal(server.registry.get('versions').version, '3');
  const infer = (/** @type {string} */ name, /** @type {object} */ input) => postJson(`${server.urls.http}/v2/models/${name}/infer`, { inputs: [input] });
  const x = { name: 'x', datatype: 'FP32', shape: [2], data: [1, 2] };
  assert.deepEqual((await infer('data', x)).json.outputs[0].data, [6, 7]);
  assert.deepEqual((await infer('flat', x)).json.outputs[0].data, [8, 9]);
  assert.equal((await infer('mine', PICTURE)).status, 200);
});

test('each entry that is no model is named with its reason, and the others are served', async (t) => {
  const repository = repositoryOf(t, {
    'digits/1/model.onnx': DIGITS,
    'digits/2/notes.txt': Buffer.from('nothing'),
    'several/a.onnx': DIGITS,
    'several/b.onnx': DIGITS,
    'text/readme.txt': Buffer.from('nothing'),
    'v1/v1/model.onnx': DIGITS,
    'file.txt': Buffer.from('nothing'),
    'twice/model.onnx': DIGITS,
    'twice.onnx': DIGITS,
  });
  const at = (/** @type {string} */ name) => path.join(repository, name);
  mkdirSync(at('empty'));
  mkdirSync(at('folder.onnx'));
  symlinkSync('nowhere', at('dangling'));
  symlinkSync('nowhere.onnx', at('dangling.onnx'));
  symlinkSync('loop', at('loop'));
  symlinkSync('../nowhere', at('digits/3'));
  mkdirSync(at('partial'));
  symlinkSync('../blobs/1', at('partial/model.onnx'));
  symlinkSync('loop.onnx', at('twice/loop.onnx'));
  writeFileSync(at('digits/4'), 'no folder');
  const { names, skipped } = await serveWithLog(t, { models: repository });
  assert.deepEqual(names, ['digits', 'twice']);
  const expected = /** @type {Record<string, RegExp>} */ ({
    dangling: /^a link to nowhere, which does not exist$/,
    'dangling.onnx': /^a link to nowhere\.onnx, which does not exist$/,
    'digits/2': /no model in it.*it has notes\.txt$/,
    'digits/3': /a link to \.\.\/nowhere, which does not exist$/,
    'digits/4': /^it is no folder$/,
    empty: /no model in it, expected NAME\.onnx, NAME\/model\.onnx.*; it is empty$/,
    'file.txt': /^it is no folder and no \.onnx file$/,
    'folder.onnx': /it is empty$/,
    loop: /^it cannot be read \(ELOOP\)$/,
    partial: /it has model\.onnx \(a link to nothing\)$/,
    several: /^several \.onnx files and no model\.onnx: a\.onnx, b\.onnx$/,
    text: /it has readme\.txt$/,
    'twice.onnx': /^there is another model twice$/,
    v1: /whole numbers from 1 as versions; it has v1$/,
  });
  assert.deepEqual(Object.keys(skipped).sort(), Object.keys(expected).sort());
  for (const [name, reason] of Object.entries(expected)) assert.match(skipped[name], reason, name);
});

// root may read everything.
if (process.platform !== 'win32' && process.getuid?.() !== 0) {
  test('a folder that may not be read is left out', async (t) => {
    const repository = repositoryOf(t, { 'digits.onnx': DIGITS });
    mkdirSync(path.join(repository, 'secret'), { mode: 0 });
    const { names, skipped } = await serveWithLog(t, { models: repository });
    assert.deepEqual([names, skipped], [['digits'], { secret: 'it cannot be read (EACCES)' }]);
  });
}

if (process.platform !== 'win32') {
  test('what is no file and no folder is left out', async (t) => {
    const repository = repositoryOf(t, { 'digits.onnx': DIGITS });
    const socket = createServer().listen(path.join(repository, 'socket.onnx'));
    t.after(() => socket.close());
    await new Promise((resolve) => socket.once('listening', resolve));
    const { names, skipped } = await serveWithLog(t, { models: repository });
    assert.deepEqual([names, skipped], [['digits'], { 'socket.onnx': 'it is no folder and no .onnx file' }]);
  });
}

describe('a folder of models or a model', () => {
  const namesOf = (/** @type {string} */ folder, /** @type {string | undefined} */ name = undefined) =>
    listModels(folder, name).entries.map((entry) => entry.name);

  test('a model called onnx makes no model of its folder', (t) => {
    for (const file of ['onnx/model.onnx', 'onnx/1/model.onnx', 'onnx.onnx', 'onnx/onnx/model.onnx']) {
      assert.deepEqual(namesOf(repositoryOf(t, { [file]: DIGITS, 'other/model.onnx': DIGITS })), ['onnx', 'other'], file);
    }
  });

  test('a model has its weights, versions or tokenizer in it', (t) => {
    for (const files of /** @type {Record<string, string | object>[]} */ ([
      { 'model.onnx': DIGITS },
      { '1/model.onnx': DIGITS },
      { '2/any.onnx': DIGITS },
      { 'onnx/model.onnx': DIGITS, 'config.json': {} },
    ])) {
      assert.deepEqual(namesOf(repositoryOf(t, files), 'me'), ['me'], JSON.stringify(files));
    }
    assert.deepEqual(namesOf(repositoryOf(t, { 'onnx/model.onnx': DIGITS }), 'me'), ['me']);
    assert.deepEqual(namesOf(repositoryOf(t, { 'any.onnx': DIGITS }), 'me'), ['me']);
    assert.deepEqual(namesOf(repositoryOf(t, { 'any.onnx': DIGITS })), ['any']);
  });

  test('a file is served under its name, or the one that is given, with the settings beside it', async (t) => {
    const repository = repositoryOf(t, { 'some digits.onnx': DIGITS, 'model.json': { maxBatch: 3 } });
    const file = path.join(repository, 'some digits.onnx');
    const { server, names } = await serveWithLog(t, { models: file });
    assert.deepEqual(names, ['some digits']);
    assert.equal(server.registry.get('some digits').config.maxBatch, 3);
    const { status } = await postJson(`${server.urls.http}/v2/models/some%20digits/infer`, { inputs: [PICTURE] });
    assert.equal(status, 200);
    assert.deepEqual(listModels(file, 'other').entries[0].name, 'other');
    assert.throws(() => listModels(path.join(repository, 'model.json')), { name: 'RepositoryError', message: /is no folder and no \.onnx file$/ });
    assert.throws(() => listModels(path.join(repository, 'nothing')), { name: 'RepositoryError', message: /^there is no folder / });
  });

  test('for a worker: a file, a folder, the newest of its versions or one of them, with their settings', (t) => {
    const repository = repositoryOf(t, {
      'digits/2/model.onnx': DIGITS,
      'digits/10/own.onnx': DIGITS,
      'digits/model.json': { maxBatch: 3 },
      ...wordsFiles('words'),
    });
    const found = (/** @type {string} */ name) => {
      const { config, versions } = findModel(path.join(repository, name)).entries[0];
      return [path.relative(repository, versions[0].path), config && path.relative(repository, config)];
    };
    assert.deepEqual(found('digits'), [path.join('digits', '10'), path.join('digits', 'model.json')]);
    assert.deepEqual(found('digits/2'), [path.join('digits', '2'), path.join('digits', 'model.json')]);
    assert.deepEqual(found('digits/2/model.onnx'), [path.join('digits', '2', 'model.onnx'), null]);
    assert.deepEqual(found('words'), ['words', null]);
    assert.throws(() => findModel(path.join(repository, 'nothing')), { name: 'RepositoryError', message: /^there is no model / });
    mkdirSync(path.join(repository, 'empty'));
    assert.throws(() => findModel(path.join(repository, 'empty')), { name: 'RepositoryError', message: /it is empty$/ });
  });
});

test('a file that Git left in place of the model says what to do', async (t) => {
  const pointer = Buffer.from('version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n');
  const repository = repositoryOf(t, { 'a/model.onnx': pointer, 'b.onnx': pointer, 'digits.onnx': DIGITS, 'short.onnx': Buffer.from('a') });
  const { server, names } = await serveWithLog(t, { models: repository });
  assert.deepEqual(names, ['digits']);
  const reasons = server.registry.versions.filter(({ name }) => ['a', 'b'].includes(name)).map(({ reason }) => reason);
  assert.equal(reasons.length, 2);
  for (const reason of reasons) assert.match(reason, /only a pointer of Git LFS to it: run git lfs pull/);
});

test('weights in another data type than the one that is wanted are named, not taken', async (t) => {
  const repository = repositoryOf(t, {
    'a/onnx/model_q4.onnx': DIGITS,
    'b/onnx/model_q4.onnx': DIGITS,
    'b/model.json': { dtype: 'q4' },
    'c/c.onnx': DIGITS,
    'c/model.json': { dtype: 'q8' },
  });
  const { server, names } = await serveWithLog(t, { models: repository });
  assert.deepEqual(names, ['b']);
  const reasonOf = (/** @type {string} */ model) => server.registry.versions.find(({ name }) => name === model)?.reason;
  assert.match(String(reasonOf('a')), /there is no model\.onnx in .*, only onnx\/model_q4\.onnx; "dtype" in model\.json can be q4$/);
  assert.match(String(reasonOf('c')), /there is no model_quantized\.onnx or model_q8\.onnx in .*, only c\.onnx$/);
});

test('names that differ by case only or have odd characters can be called', async (t) => {
  const odd = ['digits', 'Digits', 'a b', 'ä世', '50%', 'a%2Fb', 'a+b', 'a&b=c', "it's", '#1', 'q?', '"quoted"', 'v1.5-x_y', '..dots'];
  const repository = repositoryOf(t, {});
  const isSame = process.platform === 'win32' || process.platform === 'darwin';
  const names = isSame ? ['Digits', 'a b', 'ä世', '50%', 'a+b'] : odd.filter((name) => !name.startsWith('.'));
  for (const name of names) {
    mkdirSync(path.join(repository, name));
    writeFileSync(path.join(repository, name, 'model.onnx'), readFileSync(DIGITS));
  }
  const { server, names: served } = await serveWithLog(t, { models: repository });
  assert.deepEqual([...served].sort(), [...names].sort());
  for (const name of names) {
    const url = `${server.urls.http}/v2/models/${encodeURIComponent(name)}`;
    assert.equal((await (await fetch(url)).json()).name, name);
    const { status, json } = await postJson(`${url}/versions/1/infer`, { inputs: [PICTURE] });
    assert.deepEqual([status, json.model_name], [200, name]);
  }
});

describe('the program', () => {
  /** @param {string[]} args */
  const start = (...args) => spawn(process.execPath, [PROGRAM, '--http', '0', ...args], { env: { ...process.env, NODE_TEST_CONTEXT: undefined } });
  /** @param {string[]} args */
  const run = (...args) => endOf(start(...args));

  test('waits for models where they may be loaded through the network, and serves a file', async (t) => {
    const repository = repositoryOf(t, { 'files/digits.onnx': DIGITS });
    mkdirSync(path.join(repository, 'empty'));
    for (const [args, models] of /** @type {[string[], string[]][]} */ ([
      [['empty', '--control'], []],
      [['files/digits.onnx'], ['digits']],
    ])) {
      const child = start(path.join(repository, args[0]), ...args.slice(1));
      const ended = endOf(child);
      let url = '';
      createInterface({ input: child.stdout }).on('line', (line) => {
        const { msg, http } = JSON.parse(line);
        if (msg === 'ready') url = http;
      });
      await until(() => url !== '', 'the server is ready');
      const response = await fetch(`${url}/v2/repository/index`, { method: 'POST' });
      assert.deepEqual(
        (await response.json()).map(({ name }) => name),
        models,
      );
      child.kill();
      await ended;
    }
  });

  test('says what is wrong with a folder without models, and ends', async (t) => {
    const repository = repositoryOf(t, { 'mine/a.onnx': DIGITS, 'mine/b.onnx': DIGITS });
    const { code, stdout, stderr } = await run(repository);
    assert.equal(code, 1);
    assert.match(stdout, /"reason":"several \.onnx files and no model\.onnx: a\.onnx, b\.onnx"/);
    assert.match(stderr, /^webnn-node-serve: there is no model in .*, expected NAME\.onnx, /);
  });
});

// Packed weights on disk: `compile` fills a folder, `run` and others map it, `cache` looks after it.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, realpathSync, renameSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { describe } from 'node:test';
import { systemInfo } from 'webnn-node/inspect';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { externalWeight, FLOAT, node, value, weight, writeModel } from '../../../__test__/onnx/model-writer.mjs';
import { file, webnn, webnnJson, webnnWith } from './command.mjs';

/** Weights of less than 4 KiB are not kept: a matrix has 64 KiB. */
const WIDTH = 128;

const matrix = (/** @type {string} */ name, seed = 1) =>
  weight(
    name,
    [WIDTH, WIDTH],
    Float32Array.from({ length: WIDTH * WIDTH }, (_, i) => (((i * 31 * seed) % 101) - 50) / 512),
  );

/** y = x w v, where x has as many rows as it likes. */
const products = ({ rows = /** @type {string | number} */ ('n'), seed = 1 } = {}) =>
  writeModel({
    inputs: [value('x', FLOAT, [rows, WIDTH])],
    outputs: [value('y', FLOAT, [rows, WIDTH])],
    weights: [matrix('w', seed), matrix('v', seed + 1)],
    nodes: [node('MatMul', ['x', 'w'], ['h']), node('MatMul', ['h', 'v'], ['y'])],
  });

/** Writes a model that is old enough to be kept. */
function writeOld(folder, name, contents) {
  const target = path.join(folder, name);
  writeFileSync(target, contents);
  const time = Date.now() / 1000 - 3600;
  utimesSync(target, time, time);
  return target;
}

function setting(t, contents = products()) {
  const folder = realpathSync.native(temporaryFolder(t));
  return { folder, model: writeOld(folder, 'model.onnx', contents), cache: path.join(folder, 'weights') };
}

describe('compile', () => {
  test('packs what runs of all sizes map, and copies of the model, too', async (t) => {
    const { folder, model, cache } = setting(t);
    const { files, cuts } = await webnnJson('compile', model, '--cache', cache);
    assert.deepEqual(cuts, []);
    assert.deepEqual(
      files.map(({ model: of, isa, entries }) => [realpathSync.native(of), isa, entries]),
      [[model, systemInfo().isa, 2]],
    );
    const [{ path: store }] = files;
    const before = readFileSync(store);
    const copy = writeOld(folder, 'copy.onnx', readFileSync(model));
    for (const rows of ['1', '2', '77']) {
      for (const command of [['run'], ['profile', '--runs', '1']]) {
        const { code, stderr } = await webnn(...command, copy, '--input', 'random', '--free-dimension', `n=${rows}`, '--cache', cache);
        assert.deepEqual([code, stderr], [0, '']);
      }
    }
    assert.ok(readFileSync(store).equals(before), 'nothing was packed by the runs');
    assert.deepEqual((await webnnJson('cache', 'list', '--cache', cache)).files.length, 1);
    const again = await webnn('compile', model, '--cache', cache);
    assert.match(again.stdout, /^instruction set +entries +size +file\n\w+ +2 +\S+ KiB +.*\.pack\n$/);
  });

  test('for other instruction sets, beside', async (t) => {
    const { model, cache } = setting(t);
    const own = String(systemInfo().isa);
    const { files } = await webnnJson('compile', model, '--cache', cache, '--isa', 'portable', '--isa', own);
    assert.deepEqual(
      files.map(({ isa }) => isa),
      [...new Set(['portable', own])],
    );
    const { code, stderr } = await webnn('compile', model, '--cache', cache, '--isa', 'sse9');
    assert.equal(code, 1);
    assert.match(stderr, /^webnn-node: sse9: .*WEBNN_ISA/);
  });

  test('filters of images of all sizes', async (t) => {
    const channels = 32;
    const filter = weight(
      'f',
      [channels, channels, 3, 3],
      Float32Array.from({ length: channels * channels * 9 }, (_, i) => ((i % 23) - 11) / 99),
    );
    const contents = writeModel({
      inputs: [value('x', FLOAT, ['batch', channels, 'height', 'width'])],
      outputs: [value('y', FLOAT, ['batch', channels, 'height', 'width'])],
      weights: [filter],
      nodes: [node('Conv', ['x', 'f'], ['y'], { pads: { ints: [1, 1, 1, 1] } })],
    });
    const { model, cache } = setting(t, contents);
    const [{ entries }] = (await webnnJson('compile', model, '--cache', cache)).files;
    for (const size of [3, 14, 56, 224]) {
      await webnn(
        'run',
        model,
        '--input',
        'random',
        ...['batch=1', `height=${size}`, `width=${size}`].flatMap((one) => ['--free-dimension', one]),
        '--cache',
        cache,
      );
    }
    assert.deepEqual(
      (await webnnJson('cache', 'list', '--cache', cache)).files.map((file) => file.entries),
      [entries],
    );
  });

  test('names of sums of sizes, and images that have to be large', async (t) => {
    const { cache } = setting(t);
    const folder = temporaryFolder(t);
    const lengths = writeModel({
      inputs: [
        value('past', FLOAT, ['batch', 'past_sequence_length', WIDTH]),
        value('x', FLOAT, ['batch', 'sequence_length', WIDTH]),
        value('mask', FLOAT, ['batch', 'past_sequence_length + sequence_length', 1]),
      ],
      outputs: [value('y', FLOAT, ['batch', 'total', WIDTH])],
      weights: [matrix('w')],
      nodes: [node('Concat', ['past', 'x'], ['all'], { axis: { i: 1 } }), node('Mul', ['all', 'mask'], ['h']), node('MatMul', ['h', 'w'], ['y'])],
    });
    const image = writeModel({
      inputs: [value('x', FLOAT, ['batch', 8, 'height', 'width'])],
      outputs: [value('y', FLOAT, ['batch', 16, 'h', 'w'])],
      weights: [weight('f', [16, 8, 7, 7], new Float32Array(16 * 8 * 49).fill(0.5))],
      nodes: [node('Conv', ['x', 'f'], ['y'])],
    });
    for (const [i, contents] of [lengths, image].entries()) {
      const { files } = await webnnJson('compile', writeOld(folder, `${i}.onnx`, contents), '--cache', cache);
      assert.equal(files.length, 1);
      assert.ok(files[0].entries > 0);
    }
  });

  test('sizes that the model does not take', async (t) => {
    const { folder, cache } = setting(t);
    const odd = writeModel({
      inputs: [value('x', FLOAT, ['n', 'm'])],
      outputs: [value('y', FLOAT, ['a', WIDTH])],
      weights: [matrix('w')],
      nodes: [node('MatMul', ['x', 'w'], ['y'])],
    });
    const narrow = writeOld(folder, 'narrow.onnx', odd);
    const found = await webnn('compile', narrow, '--cache', cache, '--free-dimension', 'm=100');
    assert.equal(found.code, 1);
    const given = await webnnJson('compile', narrow, '--cache', cache, '--free-dimension', `m=${WIDTH}`);
    assert.equal(given.files[0].entries, 1);
  });

  test('a model that is cut: the first stage, and a note', async (t) => {
    const { folder, cache } = setting(t);
    const cut = writeOld(
      folder,
      'cut.onnx',
      writeModel({
        inputs: [value('x', FLOAT, [4, WIDTH])],
        outputs: [value('y', FLOAT, ['n', WIDTH])],
        weights: [matrix('w'), matrix('v', 5), weight('axes', [1], BigInt64Array.of(1n))],
        nodes: [
          node('MatMul', ['x', 'w'], ['h']),
          node('ReduceSum', ['h', 'axes'], ['sums'], { keepdims: { i: 0 } }),
          node('NonZero', ['sums'], ['where']),
          node('Squeeze', ['where'], ['rows']),
          node('Gather', ['h', 'rows'], ['picked'], { axis: { i: 0 } }),
          node('MatMul', ['picked', 'v'], ['y']),
        ],
      }),
    );
    const { code, stderr } = await webnn('compile', cut, '--cache', cache);
    assert.equal(code, 0);
    assert.match(stderr, /note: data decide sizes or branches at 1 node, first .*\(NonZero\): weights behind are packed by the first run/);
    const { cuts, files } = await webnnJson('compile', cut, '--cache', cache);
    assert.deepEqual([cuts.length, files[0].entries], [1, 1]);
    await webnn('run', cut, '--input', 'ones', '--cache', cache);
    const [run] = (await webnnJson('cache', 'list', '--cache', cache)).files;
    assert.equal(run.entries, 2, 'the run has packed the rest');
  });

  test('nothing to pack, and folders that cannot be used', async (t) => {
    const { folder, model, cache } = setting(t);
    const plain = writeModel({ inputs: [value('x', FLOAT, [2])], outputs: [value('y', FLOAT, [2])], nodes: [node('Abs', ['x'], ['y'])] });
    const nothing = await webnn('compile', writeOld(folder, 'plain.onnx', plain), '--cache', cache);
    assert.deepEqual([nothing.code, nothing.stdout], [0, 'nothing is written: the model has no weights of 4 KiB or more that are kept\n']);
    const refused = await webnn('compile', model, '--cache', model);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /model\.onnx cannot be made/);
    const unsupported = await webnn('compile', file('unsupported.onnx'), '--cache', cache);
    assert.equal(unsupported.code, 1);
  });
});

describe('compile, and times of files', () => {
  /** Sets a time as file systems have it that count seconds: files with such times have to be some seconds old. */
  function setNow(file) {
    const time = Math.floor(Date.now() / 1000);
    utimesSync(file, time, time);
  }

  test('a model that was written just now, and one without a time', async (t) => {
    const { model, cache } = setting(t);
    setNow(model);
    assert.equal((await webnnJson('compile', model, '--cache', cache)).files.length, 1);
    writeFileSync(model, products({ seed: 5 }));
    utimesSync(model, 0, 0);
    assert.equal((await webnnJson('compile', model, '--cache', cache)).files.length, 1);
    assert.equal((await webnnJson('cache', 'list', '--cache', cache)).files.length, 2);
  });

  test('external data that were written just now', async (t) => {
    const { folder, cache } = setting(t);
    const contents = writeModel({
      inputs: [value('x', FLOAT, ['n', WIDTH])],
      outputs: [value('y', FLOAT, ['n', WIDTH])],
      weights: [externalWeight('w', [WIDTH, WIDTH], 'data.bin', 0, WIDTH * WIDTH * 4)],
      nodes: [node('MatMul', ['x', 'w'], ['y'])],
    });
    const model = writeOld(folder, 'external.onnx', contents);
    setNow(writeOld(folder, 'data.bin', new Float32Array(WIDTH * WIDTH).fill(0.5)));
    assert.equal((await webnnJson('compile', model, '--cache', cache)).files[0].entries, 1);
  });

  test('a time in the future', async (t) => {
    const { model, cache } = setting(t);
    const time = Date.now() / 1000 + 86_400;
    utimesSync(model, time, time);
    const { code, stderr } = await webnn('compile', model, '--cache', cache);
    assert.equal(code, 1);
    assert.match(stderr, /was not written: .*in the future/);
  });
});

describe('cache', () => {
  test('list, prune and verify', async (t) => {
    const { folder, model, cache } = setting(t);
    const other = writeOld(folder, 'other.onnx', products({ seed: 7 }));
    for (const source of [model, other]) await webnnJson('compile', source, '--cache', cache);
    const { files, bytes, folder: named } = await webnnJson('cache', 'list', '--cache', cache);
    assert.deepEqual([files.length, bytes, realpathSync.native(named)], [2, files[0].bytes + files[1].bytes, cache]);
    const list = await webnn('cache', 'list', '--cache', cache);
    assert.match(list.stdout, /^model +instruction set +entries +size +last use \(UTC\) +file\n/);
    for (const { path: store, model: of } of files) assert.ok(list.stdout.includes(store) && list.stdout.includes(of));
    assert.match(list.stdout, /\n2 files, \S+ KiB in .*weights\n$/);
    const whole = await webnn('cache', 'verify', '--cache', cache);
    assert.deepEqual([whole.code, whole.stderr], [0, '']);
    assert.match(whole.stdout, /^all is well: 2 files, /);

    const [first, second] = files;
    const damaged = readFileSync(first.path);
    damaged[damaged.length - 100] ^= 1;
    writeFileSync(`${first.path}.tmp`, damaged, { mode: 0o600 });
    renameSync(`${first.path}.tmp`, first.path);
    const found = await webnn('cache', 'verify', '--cache', cache);
    assert.equal(found.code, 1);
    assert.match(found.stderr, /^webnn-node: 1 file of 2 in .*weights is damaged\nnote: 1 entry of them changed since/);
    assert.ok(found.stdout.includes(first.path) && !found.stdout.includes(second.path));
    const document = await webnn('cache', 'verify', '--cache', cache, '--json');
    assert.deepEqual([document.code, JSON.parse(document.stdout).damaged.length], [1, 1]);

    writeFileSync(`${second.path}.tmp`, 'no store', { mode: 0o600 });
    renameSync(`${second.path}.tmp`, second.path);
    assert.match((await webnn('cache', 'list', '--cache', cache)).stdout, /^invalid, or of another version +- +- +8 B /m);
    const pruned = await webnn('cache', 'prune', '--cache', cache);
    assert.match(pruned.stdout, /\nremoved 1 file, 8 B; kept 1 file, \S+ KiB in .*weights\n$/);
    const all = await webnnJson('cache', 'prune', '--bytes', '0', '--cache', cache);
    assert.deepEqual([all.removed.length, all.files, all.bytes], [1, [], 0]);
    assert.match((await webnn('cache', 'list', '--cache', cache)).stdout, /^0 files, 0 B in /);
  });

  test('the folder of the user, and folders that are absent', async (t) => {
    const folder = temporaryFolder(t);
    const { code, stdout } = await webnnWith({ env: { ...process.env, WEBNN_CACHE_DIR: folder } }, 'cache', 'list', '--json');
    assert.deepEqual([code, realpathSync.native(JSON.parse(stdout).folder)], [0, realpathSync.native(path.join(folder, 'weights'))]);
    const off = await webnnWith({ env: { ...process.env, WEBNN_CACHE_DIR: 'off' } }, 'cache', 'list');
    assert.equal(off.code, 1);
    assert.match(off.stderr, /WEBNN_CACHE_DIR is off/);
    const absent = path.join(folder, 'absent');
    const { code: failed, stderr } = await webnn('cache', 'list', '--cache', absent);
    assert.deepEqual([failed, existsSync(absent)], [1, false]);
    assert.match(stderr, /cannot read .*absent: there is no such folder/);
  });
});

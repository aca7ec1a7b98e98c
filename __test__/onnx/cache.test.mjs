// The option `cache` of loadModel(): packed weights on disk, which processes map. Most tests start processes, because within one, equal
// weights are in memory once.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import test, { describe } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { ml } from '../../index.js';
import { listCache, pruneCache, systemInfo, verifyCache } from '../../inspect.js';
import { loadModel } from '../../onnx.js';
import { temporaryFolder } from '../lib/folders.mjs';
import { killSaves } from '../lib/killed-saves.mjs';
import { runCommand, runNode } from '../lib/processes.mjs';
import { wrong } from '../lib/types.mjs';
import { externalWeight, FLOAT, node, value, weight, writeModel } from './model-writer.mjs';

const CHILD = fileURLToPath(new URL('cached.mjs', import.meta.url));

const isWindows = process.platform === 'win32';
const isRoot = process.getuid?.() === 0;

/** A path without links and without the prefix `\\?\` of Windows, as tests compare them. @param {string | null} path */
const real = (path) => realpathSync.native(String(path));

/** The names of files with packed weights. */
const NAME = /^(file|model)-[0-9a-f]{64}-\w+-\d+-\d+\.pack$/;

/** Rows and columns of the weights: a matrix has 256 KiB. */
const WIDTH = 256;
const LAYERS = 4;

/** Numbers that differ from seed to seed. @param {number} seed */
const numbers = (seed, length = WIDTH * WIDTH) => Float32Array.from({ length }, (_, i) => (((i * 31 + seed * 17) % 101) - 50) / 512);

/** Products of matrices, one after the other, and a sum. */
const products = ({ seed = 0, rows = /** @type {number | string} */ (4), layers = LAYERS, external = /** @type {string | undefined} */ (undefined) } = {}) =>
  writeModel({
    inputs: [value('x', FLOAT, [rows, WIDTH])],
    outputs: [value('y', FLOAT, [rows, WIDTH])],
    weights: Array.from({ length: layers }, (_, i) =>
      external === undefined
        ? weight(`w${i}`, [WIDTH, WIDTH], numbers(seed + i))
        : externalWeight(`w${i}`, [WIDTH, WIDTH], external, i * WIDTH * WIDTH * 4, WIDTH * WIDTH * 4),
    ),
    nodes: Array.from({ length: layers }, (_, i) => node('MatMul', [i === 0 ? 'x' : `h${i}`, `w${i}`], [i === layers - 1 ? 'y' : `h${i + 1}`])),
  });

/** Writes a file that is an hour old: what was changed just now is not kept, because it might change again in the same instant. */
function writeOld(path, contents, age = 3600) {
  writeFileSync(path, contents);
  const time = Date.now() / 1000 - age;
  utimesSync(path, time, time);
  return path;
}

/** A folder with a model and a folder for packed weights, which does not exist yet. */
function setting(t, contents = products()) {
  const folder = real(temporaryFolder(t));
  return { folder, source: writeOld(join(folder, 'model.onnx'), contents), cache: join(folder, 'weights') };
}

/** Runs cached.mjs, which must end well. */
async function cached(task, { env } = /** @type {{ env?: NodeJS.ProcessEnv }} */ ({})) {
  const { code, signal, stdout, stderr } = await runNode([CHILD, JSON.stringify({ feeds: { x: [4, WIDTH] }, ...task })], { env });
  assert.deepEqual([code, signal], [0, null], stderr);
  return JSON.parse(stdout);
}

const packs = (folder) => (existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.pack')) : []);

/** The whole files of a folder; fails if any is damaged. */
async function wholeFiles(folder) {
  assert.deepEqual((await verifyCache(folder)).files, []);
  return (await listCache(folder)).files;
}

describe('processes', () => {
  test('the first one fills the store, later ones map it, and all compute the same', async (t) => {
    const { source, cache } = setting(t);
    const without = await cached({ source });
    assert.deepEqual([without.memory.mapped, without.memory.store, without.memory.problem], [0, null, null]);
    assert.ok(without.memory.private > 0);
    const first = await cached({ source, load: { cache } });
    assert.equal(first.memory.problem, null);
    const [file, ...others] = await wholeFiles(cache);
    assert.deepEqual(others, []);
    assert.deepEqual([file.path, real(file.model), file.isa, file.entries], [first.memory.store, source, systemInfo().isa, LAYERS]);
    assert.match(basename(file.path), NAME);
    assert.ok(file.bytes > LAYERS * WIDTH * WIDTH * 4 && Math.abs(file.used - Date.now()) < 3_600_000);
    const [second, third] = await Promise.all([cached({ source, load: { cache } }), cached({ source, load: { cache: { folder: cache, verify: true } } })]);
    for (const one of [second, third]) {
      assert.ok(one.memory.mapped >= LAYERS * WIDTH * WIDTH * 4, JSON.stringify(one.memory));
      assert.ok(one.memory.private < first.memory.private, JSON.stringify([first.memory, one.memory]));
      assert.deepEqual(one.memory.store, first.memory.store);
    }
    for (const { digest, warnings, failure } of [first, second, third]) assert.deepEqual([digest, warnings, failure], [without.digest, [], null]);
    assert.equal(statSync(file.path).size, file.bytes);
    if (!isWindows) assert.deepEqual([statSync(cache).mode & 0o777, statSync(file.path).mode & 0o777], [0o700, 0o600]);
  });

  test('a model with free sizes is filled by its first run, for all sizes', async (t) => {
    const { source, cache } = setting(t, products({ rows: 'n' }));
    await cached({ source, load: { cache } });
    const { memory, digest } = await cached({ source, load: { cache }, feeds: { x: [7, WIDTH] } });
    assert.ok(memory.mapped > 0 && packs(cache).length === 1);
    assert.equal(digest, (await cached({ source, feeds: { x: [7, WIDTH] } })).digest);
  });

  test('true is the folder of WEBNN_CACHE_DIR, and off is a warning', async (t) => {
    const { folder, source } = setting(t);
    const { memory } = await cached({ source, load: { cache: true } }, { env: { WEBNN_CACHE_DIR: join(folder, 'user') } });
    assert.equal(real(memory.store), join(folder, 'user', 'weights', packs(join(folder, 'user', 'weights'))[0]));
    const off = await cached({ source, load: { cache: true } }, { env: { WEBNN_CACHE_DIR: 'off' } });
    assert.deepEqual([off.memory.store, off.warnings.map(({ code }) => code)], [null, ['WARN_WEBNN_CACHE']]);
  });

  test('false keeps nothing', async (t) => {
    const { folder, source } = setting(t);
    const { memory } = await cached({ source, load: { cache: false } }, { env: { WEBNN_CACHE_DIR: join(folder, 'user') } });
    assert.deepEqual([memory.mapped, memory.store, existsSync(join(folder, 'user'))], [0, null, false]);
  });

  test('many at once fill one store', async (t) => {
    const { source, cache } = setting(t);
    const all = await Promise.all(Array.from({ length: 6 }, () => cached({ source, load: { cache } })));
    assert.equal(new Set(all.map(({ digest }) => digest)).size, 1);
    assert.deepEqual(
      all.flatMap(({ failure }) => failure ?? []),
      [],
    );
    assert.deepEqual(
      (await wholeFiles(cache)).map(({ entries }) => entries),
      [LAYERS],
    );
    assert.ok((await cached({ source, load: { cache } })).memory.mapped > 0);
  });

  test('one that ends right after loading leaves a whole store', async (t) => {
    for (const ending of [{ ends: true }, { waits: false }]) {
      const { source, cache } = setting(t);
      const { code, signal, stderr } = await runNode([CHILD, JSON.stringify({ source, feeds: { x: [4, WIDTH] }, load: { cache }, ...ending })]);
      assert.deepEqual([code, signal, stderr], [0, null, '']);
      assert.deepEqual(
        (await wholeFiles(cache)).map(({ entries }) => entries),
        [LAYERS],
      );
    }
  });

  test('those that are killed while they save leave nothing that is damaged', async (t) => {
    const { source, cache } = setting(t, products({ layers: 24 }));
    const task = { source, feeds: { x: [4, WIDTH] } };
    await killSaves({ folder: cache, task, count: 20 });
    const { digest } = await cached(task);
    const again = await cached({ ...task, load: { cache } });
    const mapped = await cached({ ...task, load: { cache: { folder: cache, verify: true } } });
    assert.deepEqual([again.digest, mapped.digest, again.failure], [digest, digest, null]);
    assert.ok(mapped.memory.mapped > 0);
  });
});

describe('sources', () => {
  test('bytes, copies and other paths are recognized by their contents', async (t) => {
    const { folder, source, cache } = setting(t);
    const copy = writeOld(join(folder, 'copy.onnx'), readFileSync(source), 60);
    const link = join(folder, 'link.onnx');
    const { digest } = await cached({ source, load: { cache: { folder: cache, byContents: true } } });
    const [file] = await wholeFiles(cache);
    if (!isWindows) symlinkSync(source, link);
    for (const task of [{ source }, { source: copy }, ...(isWindows ? [] : [{ source: link }]), { source, asBytes: true }]) {
      const { memory, digest: other } = await cached({ ...task, load: { cache } });
      assert.deepEqual([memory.store, other], [file.path, digest]);
      assert.ok(memory.mapped > 0, JSON.stringify(memory));
    }
    assert.equal(packs(cache).length, 1);
  });

  test('bytes alone', async (t) => {
    const { source, cache } = setting(t);
    const first = await cached({ source, asBytes: true, load: { cache } });
    const second = await cached({ source, asBytes: true, load: { cache } });
    assert.ok(second.memory.mapped > 0 && first.digest === second.digest);
    assert.deepEqual(
      (await wholeFiles(cache)).map(({ model }) => model),
      ['bytes'],
    );
  });

  test('external data, and files of it that change', async (t) => {
    const { folder, source, cache } = setting(t, products({ external: 'data.bin' }));
    const dataOf = (/** @type {number} */ seed) => Buffer.concat(Array.from({ length: LAYERS }, (_, i) => new Uint8Array(numbers(seed + i).buffer)));
    writeOld(join(folder, 'data.bin'), dataOf(0));
    const first = await cached({ source, load: { cache } });
    const second = await cached({ source, load: { cache } });
    assert.ok(second.memory.mapped > 0 && first.digest === second.digest);
    writeOld(join(folder, 'data.bin'), dataOf(5), 1800);
    const changed = await cached({ source, load: { cache } });
    assert.deepEqual([changed.memory.mapped, changed.digest], [0, (await cached({ source })).digest]);
    assert.notEqual(changed.digest, first.digest);
    const contents = { cache: { folder: join(folder, 'contents'), byContents: true } };
    await cached({ source, load: contents });
    writeOld(join(folder, 'data.bin'), dataOf(0));
    const back = await cached({ source, load: contents });
    assert.deepEqual([back.memory.mapped, back.digest], [0, first.digest], 'the contents of external files count, too');
  });

  test('another model of the same size in place of the first', async (t) => {
    const { folder, source, cache } = setting(t);
    const first = await cached({ source, load: { cache } });
    const other = products({ seed: 9 });
    assert.equal(statSync(source).size, other.byteLength);
    const expected = await cached({ source: writeOld(join(folder, 'other.onnx'), other) });
    // First by another file with the same times, then by other bytes in the same file.
    renameSync(join(folder, 'other.onnx'), source);
    const replaced = await cached({ source, load: { cache } });
    writeOld(source, products(), 1800);
    const written = await cached({ source, load: { cache } });
    writeOld(source, other, 900);
    const again = await cached({ source, load: { cache } });
    assert.deepEqual([replaced.digest, written.digest, again.digest], [expected.digest, first.digest, expected.digest]);
    assert.deepEqual(
      [replaced, written, again].map(({ memory }) => memory.mapped),
      [0, 0, 0],
    );
    await wholeFiles(cache);
  });

  if (!isWindows) {
    test('a file that is written in place and gets its old time back, and one whose owner or mode is set', async (t) => {
      const { source, cache } = setting(t);
      const { atime, mtime } = statSync(source);
      await cached({ source, load: { cache } });
      const other = products({ seed: 9 });
      writeFileSync(source, other);
      utimesSync(source, atime, mtime);
      const written = await cached({ source, load: { cache } });
      assert.deepEqual([written.memory.mapped, written.digest], [0, (await cached({ source })).digest]);
      assert.ok((await cached({ source, load: { cache } })).memory.mapped > 0);
      await cached({ source, load: { cache: { folder: cache, byContents: true } } });
      chmodSync(source, 0o600);
      rmSync(written.memory.store);
      const again = await cached({ source, load: { cache } });
      assert.ok(again.memory.mapped > 0 && again.digest === written.digest, 'recognized by its contents');
      const apart = { folder: join(cache, 'apart') };
      await cached({ source, load: { cache: apart } });
      chmodSync(source, 0o644);
      assert.equal((await cached({ source, load: { cache: apart } })).memory.mapped, 0);
    });
  }

  test('files that could change without another time are not kept, and this is said', async (t) => {
    const { folder, source, cache } = setting(t);
    const { digest } = await cached({ source });
    for (const age of [0, -86_400]) {
      const young = writeOld(join(folder, 'young.onnx'), products());
      // Whole seconds, as of file systems that have no others: such files have to be some seconds old.
      const time = Math.ceil(Date.now() / 1000) - age;
      utimesSync(young, time, time);
      const { memory, failure, warnings, digest: computed } = await cached({ source: young, load: { cache } });
      assert.match(memory.problem, /was not written: the model file has just changed, or its time is in the future/);
      assert.match(failure.message, /has just changed/);
      assert.deepEqual([failure.code, warnings, computed, packs(cache)], ['ERR_WEBNN_OPERATION', [], digest, []]);
    }
    const timeless = writeOld(join(folder, 'timeless.onnx'), products());
    utimesSync(timeless, 0, 0);
    await cached({ source: timeless, load: { cache } });
    assert.ok((await cached({ source: timeless, load: { cache } })).memory.mapped > 0, 'as in images that can be made again');
  });

  test('worker threads', async (t) => {
    const { source, cache } = setting(t);
    const { digest } = await cached({ source });
    const program = `
      const { parentPort, workerData } = require('node:worker_threads');
      const { loadModel } = require(${JSON.stringify(fileURLToPath(new URL('../../onnx.js', import.meta.url)))});
      (async () => {
        const model = await loadModel(workerData.source, { device: 'cpu', numThreads: 1, cache: workerData.cache });
        await model.saved();
        parentPort.postMessage(model.memory);
      })();`;
    const threads = Array.from({ length: 3 }, async () => {
      const worker = new Worker(program, { eval: true, workerData: { source, cache } });
      t.after(() => worker.terminate());
      return new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
    });
    const memories = await Promise.all(threads);
    assert.equal(new Set(memories.map(({ store }) => store)).size, 1);
    assert.deepEqual(
      (await wholeFiles(cache)).map(({ entries }) => entries),
      [LAYERS],
    );
    const later = await cached({ source, load: { cache } });
    assert.ok(later.memory.mapped > 0 && later.digest === digest);
  });

  test('a worker thread that ends while it saves', async (t) => {
    const { source, cache } = setting(t);
    const program = `
      const { workerData } = require('node:worker_threads');
      const { loadModel } = require(${JSON.stringify(fileURLToPath(new URL('../../onnx.js', import.meta.url)))});
      loadModel(workerData.source, { device: 'cpu', numThreads: 1, cache: workerData.cache }).then(() => process.exit());`;
    const worker = new Worker(program, { eval: true, workerData: { source, cache } });
    await new Promise((resolve, reject) => worker.once('exit', resolve).once('error', reject));
    await wholeFiles(cache);
    const { digest } = await cached({ source });
    assert.equal((await cached({ source, load: { cache } })).digest, digest);
  });

  test('within a process, later models pack nothing again', async (t) => {
    const { source, cache } = setting(t);
    const load = () => loadModel(source, { device: 'cpu', numThreads: 1, cache });
    const first = await load();
    // Depending on whether the file is there already, what is packed is shared or mapped.
    for (let i = 0; i < 3; i++) {
      const { memory } = await load();
      assert.equal(memory.private, 0);
      assert.ok(memory.shared + memory.mapped >= LAYERS * WIDTH * WIDTH * 4, JSON.stringify(memory));
      await first.saved();
    }
    first.destroy();
    await assert.rejects(first.saved(), { code: 'ERR_WEBNN_DESTROYED' });
  });
});

describe('folders that cannot be used are a warning, and the model works', () => {
  /** Loads with a folder, which must be warned about. */
  async function warned(source, cache, message) {
    const { memory, warnings, digest, failure } = await cached({ source, load: { cache } });
    assert.deepEqual([memory.mapped, memory.store, failure], [0, null, null]);
    assert.deepEqual(
      warnings.map(({ code }) => code),
      ['WARN_WEBNN_CACHE'],
    );
    assert.match(warnings[0].message, message);
    assert.equal(digest, (await cached({ source })).digest);
    await assert.rejects(listCache(cache), { name: 'NotSupportedError', message });
  }

  if (!isWindows) {
    test('others can write it', async (t) => {
      const { source, cache } = setting(t);
      mkdirSync(cache);
      for (const mode of [0o777, 0o770, 0o1777, 0o702]) {
        chmodSync(cache, mode);
        await warned(source, cache, /weights can be written by other users/);
      }
      assert.deepEqual(readdirSync(cache), []);
    });
  }

  if (isRoot) {
    test('it belongs to somebody else', async (t) => {
      const { source, cache } = setting(t);
      mkdirSync(cache, { mode: 0o700 });
      chownSync(cache, 12345, 12345);
      await warned(source, cache, /weights belongs to another user/);
    });
  }

  test('it is a file, or below one', async (t) => {
    const { folder, source } = setting(t);
    const file = writeOld(join(folder, 'file'), 'x');
    await warned(source, file, /file cannot be made: /);
    await warned(source, join(file, 'weights'), /weights cannot be made: /);
  });
});

describe('a store that cannot be written', () => {
  const shell = (script, task) =>
    runCommand('sh', ['-c', `${script} && exec "$0" "$@"`, process.execPath, CHILD, JSON.stringify({ feeds: { x: [4, WIDTH] }, ...task })]);

  if (!isWindows) {
    // As a full disk does, the limit makes writing fail in the middle. The system also sends SIGXFSZ, which must not end the process.
    test('a disk that is full', async (t) => {
      const { source, cache } = setting(t);
      const { code, signal, stdout, stderr } = await shell('ulimit -f 256', { source, load: { cache } });
      assert.deepEqual([code, signal], [0, null], stderr);
      const { memory, digest, failure, warnings } = JSON.parse(stdout);
      assert.equal(failure.code, 'ERR_WEBNN_OPERATION');
      assert.match(failure.message, /^saved: packed weights are not on disk: .*\.pack was not written: |packed weights are not on disk: .*was not written: /);
      assert.match(memory.problem, /was not written: /);
      assert.deepEqual([memory.mapped, warnings], [0, []]);
      assert.equal(digest, (await cached({ source })).digest);
      assert.deepEqual(readdirSync(cache), [], 'what was begun is removed');
      assert.equal((await cached({ source, load: { cache } })).failure, null, 'later, there is room');
      assert.equal((await wholeFiles(cache)).length, 1);
    });
  }

  if (isRoot && process.platform === 'linux') {
    test('a folder of the administrator serves other users, who write nothing', async (t) => {
      const { folder, source, cache } = setting(t);
      await cached({ source, load: { cache: { folder: cache, byContents: true } } });
      execFileSync('chmod', ['-R', 'a+rX', folder]);
      const names = packs(cache);
      const asOther = (...command) => runCommand('setpriv', ['--reuid=12345', '--regid=12345', '--clear-groups', ...command]);
      const reading = await asOther('test', '-r', CHILD).catch(() => ({ code: 1 }));
      if (reading.code !== 0) return t.skip('other users cannot read this checkout, or there is no setpriv');
      const child = (/** @type {object} */ task) => asOther(process.execPath, CHILD, JSON.stringify({ feeds: { x: [4, WIDTH] }, ...task }));
      const { stdout, stderr } = await child({ source, load: { cache } });
      assert.equal(stderr, '');
      const { memory, failure, warnings, digest } = JSON.parse(stdout);
      assert.deepEqual([failure, warnings, digest], [null, [], (await cached({ source })).digest]);
      assert.ok(memory.mapped > 0);
      // Another model: packed, but not kept.
      const other = writeOld(join(folder, 'other.onnx'), products({ seed: 3 }));
      const second = JSON.parse((await child({ source: other, load: { cache } })).stdout);
      assert.deepEqual([second.memory.mapped, second.failure.code, packs(cache)], [0, 'ERR_WEBNN_OPERATION', names]);
      assert.match(second.memory.problem, /was not written: /);
    });
  }
});

describe('files that are damaged', () => {
  /** A store with a file that `damage` has changed. */
  async function damagedStore(t, damage) {
    const { folder, source, cache } = setting(t);
    const { digest } = await cached({ source, load: { cache } });
    const [name] = packs(cache);
    const path = join(cache, name);
    const bytes = readFileSync(path);
    // Written beside and renamed: nothing that is mapped changes.
    writeFileSync(`${path}.tmp`, damage(bytes) ?? bytes, { mode: 0o600 });
    renameSync(`${path}.tmp`, path);
    return { folder, source, cache, path, digest };
  }

  test('flipped bytes of weights: with verify, they are packed again; without, nothing crashes', async (t) => {
    const flip = (/** @type {Buffer} */ bytes) => {
      for (let at = bytes.length / 2; at < bytes.length; at += 997) bytes[Math.floor(at)] ^= 0x55;
    };
    const { source, cache, path, digest } = await damagedStore(t, flip);
    const { files } = await verifyCache(cache);
    assert.deepEqual(
      files.map(({ path: damaged, damaged: entries }) => [real(damaged), entries > 0]),
      [[path, true]],
    );
    const trusted = await cached({ source, load: { cache } });
    assert.ok(trusted.memory.mapped > 0);
    assert.notEqual(trusted.digest, digest);
    const verified = await cached({ source, load: { cache: { folder: cache, verify: true } } });
    assert.deepEqual([verified.digest, verified.failure], [digest, null]);
    await wholeFiles(cache);
    const again = await cached({ source, load: { cache: { folder: cache, verify: true } } });
    assert.deepEqual([again.digest, again.memory.private], [digest, trusted.memory.private], 'it is mapped again');
  });

  for (const [what, damage] of /** @type {[string, (bytes: Buffer) => Buffer | void][]} */ ([
    ['a flipped byte of the header', (bytes) => void (bytes[20] ^= 1)],
    ['a flipped byte of the table', (bytes) => void (bytes[200] ^= 1)],
    ['a cut file', (bytes) => bytes.subarray(0, bytes.length - 4096)],
    ['a longer file', (bytes) => Buffer.concat([bytes, Buffer.alloc(64)])],
    ['an empty file', () => Buffer.alloc(0)],
    ['a text', () => Buffer.from('not a store\n'.repeat(100))],
  ])) {
    test(`${what}: it is packed again, and the file replaced`, async (t) => {
      const { source, cache, path, digest } = await damagedStore(t, damage);
      assert.deepEqual(
        (await listCache(cache)).files.map(({ model, isa, entries }) => [model, isa, entries]),
        [[null, null, 0]],
      );
      assert.deepEqual(
        (await verifyCache(cache)).files.map((file) => real(file.path)),
        [path],
      );
      const first = await cached({ source, load: { cache } });
      assert.deepEqual([first.digest, first.memory.mapped, first.failure], [digest, 0, null]);
      const second = await cached({ source, load: { cache } });
      assert.ok(second.memory.mapped > 0 && second.digest === digest);
      await wholeFiles(cache);
    });
  }

  if (!isWindows) {
    test('links, and files that others can write, are not followed', async (t) => {
      const { source, cache, path, digest } = await damagedStore(t, (bytes) => bytes);
      renameSync(path, `${path}.real`);
      symlinkSync(`${path}.real`, path);
      const linked = await cached({ source, load: { cache } });
      assert.deepEqual([linked.memory.mapped, linked.digest, linked.failure], [0, digest, null]);
      assert.ok(statSync(path).isFile() && existsSync(`${path}.real`));
      chmodSync(path, 0o666);
      const open = await cached({ source, load: { cache } });
      assert.deepEqual([open.memory.mapped, open.digest], [0, digest]);
      assert.equal(statSync(path).mode & 0o777, 0o600, 'it is replaced');
    });

    test('removing and replacing files does not disturb who has mapped them', async (t) => {
      const { source, cache, path } = await damagedStore(t, (bytes) => bytes);
      const model = await loadModel(source, { device: 'cpu', numThreads: 1, cache });
      assert.ok(model.memory.mapped > 0);
      const x = numbers(1, 4 * WIDTH);
      const before = await model.run({ x });
      writeFileSync(`${path}.tmp`, Buffer.alloc(statSync(path).size));
      renameSync(`${path}.tmp`, path);
      assert.deepEqual((await model.run({ x })).y.data, before.y.data);
      rmSync(cache, { recursive: true });
      assert.deepEqual((await model.run({ x })).y.data, before.y.data);
      model.destroy();
    });
  }
});

describe('the folder', () => {
  test('is listed, those used longest ago first, and pruned to a size', async (t) => {
    const { folder, cache } = setting(t);
    const sources = [0, 1, 2].map((seed) => writeOld(join(folder, `${seed}.onnx`), products({ seed })));
    for (const source of sources) await cached({ source, load: { cache } });
    const { folder: named, files } = await listCache(cache);
    assert.equal(real(named), cache);
    assert.deepEqual(new Set(files.map(({ model }) => real(model))), new Set(sources));
    const ages = new Map(sources.map((source, i) => [source, Date.now() / 1000 - 86_400 * (3 - i)]));
    for (const { path, model } of files) utimesSync(path, ages.get(real(model)) ?? 0, ages.get(real(model)) ?? 0);
    const sorted = (await listCache(cache)).files;
    assert.deepEqual(
      sorted.map(({ model }) => real(model)),
      sources,
    );
    const others = ['model.pack', 'notes.txt', `${basename(files[0].path)}.old`];
    for (const name of others) writeFileSync(join(cache, name), 'mine');
    const removed = await pruneCache(cache, sorted[1].bytes + sorted[2].bytes);
    assert.deepEqual(removed.files, [sorted[0]]);
    assert.deepEqual((await listCache(cache)).files, sorted.slice(1));
    assert.deepEqual((await pruneCache(cache)).files, [], 'the limit is far away');
    assert.deepEqual((await pruneCache(cache, 0)).files.length, 2);
    assert.deepEqual(readdirSync(cache).sort(), others.sort(), 'other files are never touched');
  });

  test('stays below WEBNN_CACHE_BYTES, and a wrong value is a warning', async (t) => {
    const { folder, cache } = setting(t);
    const sources = [0, 1, 2].map((seed) => writeOld(join(folder, `${seed}.onnx`), products({ seed })));
    await cached({ source: sources[0], load: { cache } });
    const [{ bytes, path }] = (await listCache(cache)).files;
    const time = Date.now() / 1000 - 86_400;
    utimesSync(path, time, time);
    for (const source of sources.slice(1)) await cached({ source, load: { cache } }, { env: { WEBNN_CACHE_BYTES: String(2 * bytes) } });
    assert.deepEqual((await wholeFiles(cache)).map(({ model }) => real(model)).sort(), sources.slice(1));
    const { warnings } = await cached({ source: sources[0], load: { cache } }, { env: { WEBNN_CACHE_BYTES: 'much' } });
    assert.deepEqual(
      warnings.map(({ code }) => code),
      ['WARN_WEBNN_CACHE'],
    );
    assert.match(warnings[0].message, /WEBNN_CACHE_BYTES is "much", expected a number of bytes/);
  });

  test('what is used counts as used', async (t) => {
    const { source, cache } = setting(t);
    const { memory } = await cached({ source, load: { cache } });
    const time = Date.now() / 1000 - 86_400;
    utimesSync(memory.store, time, time);
    await cached({ source, load: { cache } });
    const [{ used }] = (await listCache(cache)).files;
    assert.ok(Date.now() - used < 3_600_000);
  });

  test('wrong arguments', async (t) => {
    const folder = temporaryFolder(t);
    for (const call of [listCache, pruneCache, verifyCache]) {
      for (const path of ['', 1, null, {}]) await assert.rejects(call(wrong(path)), { name: 'TypeError', message: /folder/ });
    }
    for (const bytes of [-1, NaN, '1', null]) await assert.rejects(pruneCache(folder, wrong(bytes)), { name: 'TypeError', message: /bytes/ });
  });
});

describe('createContext()', () => {
  const program = `
    const { MLGraphBuilder, ml } = require(${JSON.stringify(fileURLToPath(new URL('../../index.js', import.meta.url)))});
    const [cache, width, layers, isLost] = JSON.parse(process.argv[1]);
    const warnings = [];
    process.on('warning', ({ code }) => void warnings.push(code));
    (async () => {
      const context = await ml.createContext({ accelerated: false, numThreads: 1, cache });
      if (isLost) require('node:fs').rmSync(cache, { recursive: true });
      const builder = new MLGraphBuilder(context);
      const shape = [width, width];
      let y = builder.input('x', { dataType: 'float32', shape });
      for (let layer = 0; layer < layers; layer++) {
        y = builder.matmul(y, builder.constant({ dataType: 'float32', shape }, Float32Array.from({ length: width * width }, (_, i) => ((i * 7 + layer) % 23) / 99)));
      }
      const graph = await builder.build({ y });
      const [x, result] = [{ writable: true }, { readable: true }].map((access) => context.createTensor({ dataType: 'float32', shape, ...access }));
      context.writeTensor(await x, new Float32Array(width * width).fill(0.25));
      context.dispatch(graph, { x: await x }, { y: await result });
      const data = new Uint8Array(await context.readTensor(await result));
      // Nothing waits for a warning.
      for (let tries = 0; isLost && warnings.length === 0 && tries < 400; tries++) await require('node:timers/promises').setTimeout(50);
      console.log(JSON.stringify([require('node:crypto').createHash('sha256').update(data).digest('hex'), warnings]));
    })();`;

  /** Builds and runs a graph in a process of its own; the folder may be removed before. */
  async function built(cache, isLost = false) {
    const { code, stdout, stderr } = await runNode(['--eval', program, JSON.stringify([cache, WIDTH, LAYERS, isLost])]);
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout);
  }

  test('keeps the constants of graphs', async (t) => {
    const { folder, cache } = setting(t);
    const [expected] = await built(false);
    assert.deepEqual(await built(cache), [expected, []]);
    const files = await wholeFiles(cache);
    assert.equal(
      files.reduce((sum, { entries }) => sum + entries, 0),
      LAYERS,
    );
    const before = files.map(({ path }) => readFileSync(path));
    assert.deepEqual(await built({ folder: cache, verify: true }), [expected, []]);
    assert.deepEqual(
      (await wholeFiles(cache)).map(({ path }) => readFileSync(path)),
      before,
      'nothing is packed again',
    );
    assert.deepEqual(await built(writeOld(join(folder, 'file'), 'x')), [expected, ['WARN_WEBNN_CACHE']]);
  });

  test('builds without the folder if it is lost, and warns', async (t) => {
    const { cache } = setting(t);
    mkdirSync(cache);
    const [expected] = await built(false);
    assert.deepEqual(await built(cache, true), [expected, ['WARN_WEBNN_CACHE']]);
    assert.equal(existsSync(cache), false);
  });

  test('refuses wrong options', async () => {
    for (const cache of ['', 1, null, { folder: 1 }, { verify: 'yes' }]) {
      await assert.rejects(ml.createContext({ cache: wrong(cache) }), { name: 'TypeError', message: /cache/ });
    }
  });
});

describe('wrong options', () => {
  const model = products({ layers: 1 });
  for (const [cache, code, message] of /** @type {[unknown, string, RegExp][]} */ ([
    ['', 'ERR_WEBNN_TYPE', /cache is "", expected a boolean, the path of a folder, or an object with folder, verify, byContents/],
    [1, 'ERR_WEBNN_TYPE', /cache is 1, expected a boolean/],
    [null, 'ERR_WEBNN_TYPE', /cache is null, expected a boolean/],
    [{ folder: '' }, 'ERR_WEBNN_TYPE', /cache\.folder is "", expected the path of a folder/],
    [{ folder: true }, 'ERR_WEBNN_TYPE', /cache\.folder is true/],
    [{ verify: 1 }, 'ERR_WEBNN_TYPE', /cache\.verify is 1, expected a boolean/],
    [{ byContents: 'yes' }, 'ERR_WEBNN_TYPE', /cache\.byContents is "yes", expected a boolean/],
    [{ bycontents: true }, 'ERR_WEBNN_UNKNOWN_OPTION', /bycontents/],
  ])) {
    test(JSON.stringify(cache), async () => {
      await assert.rejects(loadModel(model, { cache: wrong(cache) }), { name: 'TypeError', code, message });
    });
  }
});

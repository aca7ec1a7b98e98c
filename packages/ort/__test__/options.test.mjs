// Options of sessions and runs: what they change, what has no effect, and which values are refused with which error.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, realpathSync, utimesSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { listCache } from 'webnn-node/inspect';
import { InferenceSession, Tensor } from 'webnn-node-ort';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { negate, products, root, runNode, runProgram, write } from './support.mjs';
import { wrong } from '../../../__test__/lib/types.mjs';

const { toSessionSettings } = createRequire(import.meta.url)('../lib/options.js');

const model = negate();
const create = (options) => InferenceSession.create(model, options);
const x = () => new Tensor('float32', [1, 2], [2]);

/** Creates a session in a process of its own, and gives what it wrote to standard error. */
async function errorsOf(options, body = '') {
  const { code, stderr } = await runProgram(`
    import { env, InferenceSession, Tensor } from 'webnn-node-ort';
    import { negate } from './__test__/support.mjs';
    ${body}
    const session = await InferenceSession.create(negate(), ${JSON.stringify(options)});
    await session.run({ x: new Tensor('float32', [1], [1]) });`);
  assert.equal(code, 0, stderr);
  return stderr;
}

describe('session options', () => {
  it('are accepted where onnxruntime-node accepts them', async () => {
    const accepted = [
      {},
      { executionProviders: ['cpu'] },
      { executionProviders: [{ name: 'cpu' }] },
      { executionProviders: [{ name: 'cpu', useArena: true }] },
      { executionProviders: [] },
      { executionProviders: null },
      { executionProviders: undefined },
      Object.freeze({}),
      { intraOpNumThreads: 0 },
      { intraOpNumThreads: 1 },
      { intraOpNumThreads: 3 },
      { interOpNumThreads: 0 },
      { interOpNumThreads: 4 },
      ...['disabled', 'basic', 'extended', 'layout', 'all'].map((graphOptimizationLevel) => ({ graphOptimizationLevel })),
      { enableCpuMemArena: true },
      { enableCpuMemArena: false },
      { enableMemPattern: true },
      { enableMemPattern: false },
      { executionMode: 'sequential' },
      { executionMode: 'parallel' },
      { optimizedModelFilePath: '' },
      { extra: {} },
      { extra: [] },
      { extra: { session: { set_denormal_as_zero: '1', nested: { deep: 'x' } } } },
      { logId: 'mine' },
      { logSeverityLevel: 0 },
      { logSeverityLevel: 4 },
      { logVerbosityLevel: 'x' },
      { enableProfiling: false },
      { enableProfiling: false, profileFilePrefix: 5 },
      { profileFilePrefix: 5 },
      { externalData: null },
      { externalData: undefined },
      { externalData: [] },
      { externalData: [{ path: 'unused.bin', data: new Uint8Array(4) }] },
      { preferredOutputLocation: null },
      { preferredOutputLocation: undefined },
      { preferredOutputLocation: 'cpu' },
      { preferredOutputLocation: {} },
      { preferredOutputLocation: { y: 'cpu' } },
      { freeDimensionOverrides: { n: 5 } },
      { freeDimensionOverrides: 5 },
      { unknown: 1 },
    ];
    for (const options of accepted) {
      const session = await create({ logSeverityLevel: 4, ...options });
      const { y } = await session.run({ x: x() });
      assert.deepEqual([...y.data], [-1, -2]);
      await session.release();
    }
  });

  it('are refused with a TypeError or RangeError that names the option', async () => {
    const refused = {
      TypeError: [
        { intraOpNumThreads: '1' },
        { intraOpNumThreads: undefined },
        { intraOpNumThreads: null },
        { intraOpNumThreads: 1n },
        { intraOpNumThreads: Symbol('x') },
        { interOpNumThreads: true },
        { graphOptimizationLevel: 0 },
        { graphOptimizationLevel: 'most' },
        { graphOptimizationLevel: undefined },
        { enableCpuMemArena: 0 },
        { enableCpuMemArena: undefined },
        { enableMemPattern: 'yes' },
        { optimizedModelFilePath: 5 },
        { extra: 5 },
        { extra: null },
        { extra: undefined },
        { extra: { session: { a: 1 } } },
        { extra: { a: null } },
        { executionMode: 1 },
        { executionMode: 'fast' },
        { logId: 5 },
        { logSeverityLevel: 'error' },
        { logSeverityLevel: undefined },
        { enableProfiling: 1 },
        { enableProfiling: true },
        { enableProfiling: true, profileFilePrefix: 5 },
        { externalData: 5 },
        { externalData: {} },
        { externalData: [5] },
        { externalData: [null] },
        { externalData: [{}] },
        { externalData: [{ path: 'x' }] },
        { externalData: [{ path: 'x', data: 'y' }] },
        { externalData: [{ path: 'x', data: new ArrayBuffer(4) }] },
        { externalData: [{ path: 'x', data: Float32Array.of(1) }] },
        { externalData: [{ path: 5, data: new Uint8Array(1) }] },
        { preferredOutputLocation: 5 },
        { preferredOutputLocation: 'moon' },
        { preferredOutputLocation: 'none' },
        { preferredOutputLocation: ['cpu'] },
        { preferredOutputLocation: { z: 'cpu' } },
        { preferredOutputLocation: { y: 'moon' } },
        { preferredOutputLocation: { y: 5 } },
      ],
      RangeError: [
        { intraOpNumThreads: 1.5 },
        { intraOpNumThreads: -1 },
        { intraOpNumThreads: NaN },
        { intraOpNumThreads: Infinity },
        { intraOpNumThreads: 2 ** 32 },
        { interOpNumThreads: 0.1 },
        { logSeverityLevel: 5 },
        { logSeverityLevel: -1 },
        { logSeverityLevel: 1.5 },
      ],
    };
    for (const [name, list] of Object.entries(refused)) {
      for (const options of list) {
        const [option] = Object.keys(options);
        await assert.rejects(create(options), { name, message: new RegExp(option) }, option);
      }
    }
    const providers = [
      { name: 'cpu', deviceId: 'x' },
      { name: 'webgpu', speed: 1 },
      { name: 'webgpu', preferredLayout: 5 },
      { name: 'webgpu', enableRobustness: 1 },
      { name: 'webgpu', forceCpuNodeNames: 'x' },
      { name: 'webgpu', forceCpuNodeNames: [5] },
    ];
    for (const provider of providers) {
      await assert.rejects(create({ executionProviders: [provider] }), { name: 'TypeError', message: /executionProviders\[0\]/ });
    }
  });

  it('are refused in the order of onnxruntime-node, before the model is read', async () => {
    await assert.rejects(InferenceSession.create('/there/is/no.onnx', wrong({ logId: 5, executionMode: 5, intraOpNumThreads: 'x' })), {
      name: 'TypeError',
      message: /intraOpNumThreads/,
    });
    await assert.rejects(InferenceSession.create('/there/is/no.onnx', { preferredOutputLocation: wrong(5) }), { name: 'Error', message: /failed/ });
  });

  it('fail where they are frozen with providers, as those of onnxruntime-node', async () => {
    await assert.rejects(create(Object.freeze({ executionProviders: ['cpu'] })), { name: 'TypeError', message: /executionProviders/ });
  });

  it('executionProviders: those that are not there are skipped, and said to be; none is an error', async () => {
    const warnings = await errorsOf({ executionProviders: ['cuda', 'cpu'] });
    assert.match(warnings, /"cuda".*not available/);
    await assert.rejects(create({ executionProviders: ['cuda'] }), { name: 'Error', message: /cuda/ });
    await assert.rejects(create({ executionProviders: [{}] }), { name: 'Error', message: /no available backend/ });
    await assert.rejects(create({ executionProviders: 'cpu' }), { name: 'TypeError' });
  });

  it('executionProviders: webgpu is the GPU; without one it is an error, unless the CPU may be used', async () => {
    const outcome = await create({ executionProviders: ['webgpu'] }).catch((/** @type {NodeJS.ErrnoException} */ error) => error);
    if (outcome instanceof Error) {
      assert.equal(outcome.code, 'ERR_WEBNN_NOT_SUPPORTED');
      assert.match(outcome.message, /GPU/);
      assert.match(await errorsOf({ executionProviders: ['webgpu', 'cpu'] }), /\[W:onnxruntime:.*CPU is used instead of webgpu/);
    } else {
      const session = await create({ executionProviders: ['webgpu'], preferredOutputLocation: 'gpu-buffer' });
      const { y } = await session.run({ x: x() });
      assert.equal(y.location, 'gpu-buffer');
      assert.deepEqual([...(await y.getData(true))], [-1, -2]);
    }
  });

  it('logSeverityLevel, logId and env.logLevel decide what is written to standard error', async () => {
    const options = { executionMode: 'parallel', preferredOutputLocation: 'texture' };
    const [quiet, usual, all, global, own] = await Promise.all([
      errorsOf({ ...options, logSeverityLevel: 3 }),
      errorsOf(options),
      errorsOf({ ...options, logSeverityLevel: 1, logId: 'me' }),
      errorsOf(options, 'env.logLevel = "error";'),
      errorsOf({ ...options, logSeverityLevel: 0 }, 'env.logLevel = "fatal";'),
    ]);
    assert.equal(quiet, '');
    assert.match(usual, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \[W:onnxruntime:, webnn-node\] .*texture.*$/);
    assert.match(all, /\[I:onnxruntime:me, webnn-node\] executionMode has no effect/);
    assert.match(all, /\[W:onnxruntime:me, .*texture/);
    assert.equal(global, '');
    assert.match(own, /executionMode/);
  });

  it('enableProfiling writes a trace', async (t) => {
    const directory = temporaryFolder(t);
    const session = await create({ enableProfiling: true, profileFilePrefix: join(directory, 'mine') });
    session.startProfiling();
    await session.run({ x: x() });
    await session.run({ x: x() });
    session.endProfiling();
    session.endProfiling();
    const files = readdirSync(directory);
    assert.equal(files.length, 1);
    assert.match(files[0], /^mine_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_\d{3}\.json$/);
    const events = JSON.parse(readFileSync(join(directory, files[0]), 'utf8'));
    assert.deepEqual(events.filter(({ name }) => name === 'model_run').length, 2);
    assert.deepEqual(
      events.slice(0, 2).map(({ name }) => name),
      ['model_loading_array', 'session_initialization'],
    );
    const nodes = events.filter(({ cat }) => cat === 'Node');
    assert.equal(nodes.length, 2);
    const run = events.find(({ name }) => name === 'model_run');
    assert.ok(nodes[0].ts >= run.ts && nodes[0].dur <= run.dur, JSON.stringify([run, nodes[0]]));
    assert.deepEqual([nodes[0].name, nodes[0].args.op_name], ['y_kernel_time', 'neg']);
    for (const { cat, pid, ph, ts, dur } of events) {
      assert.deepEqual([typeof cat, pid, ph], ['string', process.pid, 'X']);
      assert.ok(Number.isInteger(ts) && Number.isInteger(dur) && ts >= 0 && dur >= 0);
    }
    await session.run({ x: x() });
    await session.release();
    assert.equal(readdirSync(directory).length, 1);
  });

  it('enableProfiling writes the trace when the session is released or the process exits, and says why it cannot', async (t) => {
    const directory = temporaryFolder(t);
    const listeners = process.listenerCount('exit');
    const released = await InferenceSession.create(write(directory, 'model.onnx', model), {
      enableProfiling: true,
      profileFilePrefix: join(directory, 'released'),
    });
    await released.release();
    const [profile] = readdirSync(directory).filter((name) => name.startsWith('released'));
    assert.equal(JSON.parse(readFileSync(join(directory, profile), 'utf8'))[0].name, 'model_loading_uri');
    await assert.rejects(InferenceSession.create('/there/is/no.onnx', { enableProfiling: true, profileFilePrefix: join(directory, 'failed') }));
    await errorsOf({ enableProfiling: true, profileFilePrefix: join(directory, 'exit') });
    assert.equal(process.listenerCount('exit'), listeners);
    assert.equal(readdirSync(directory).filter((name) => name.startsWith('failed')).length, 0);
    assert.equal(readdirSync(directory).filter((name) => name.startsWith('exit')).length, 1);
    assert.match(await errorsOf({ enableProfiling: true, profileFilePrefix: '/there/is/no/folder' }), /\[E:onnxruntime:.*profile/);
  });

  it('intraOpNumThreads above what there can be is said to be cut', async () => {
    assert.match(await errorsOf({ intraOpNumThreads: 100_000 }), /intraOpNumThreads.*1024/);
  });
});

describe('packed weights on disk', () => {
  /** A model that packs, old enough to be kept, and a folder. */
  function setting(t) {
    const folder = realpathSync.native(temporaryFolder(t));
    const source = write(folder, 'model.onnx', products(128, 2));
    const time = Date.now() / 1000 - 3600;
    utimesSync(source, time, time);
    return { folder, source, cache: join(folder, 'weights') };
  }

  /** Runs a session in a process of its own, which writes nothing to standard error. */
  async function resultOf(source, options, env = {}) {
    const program = `
      import { InferenceSession, Tensor } from 'webnn-node-ort';
      const session = await InferenceSession.create(${JSON.stringify(source)}, ${JSON.stringify(options)});
      const { y } = await session.run({ x: new Tensor('float32', new Float32Array(128 * 128).fill(1), [128, 128]) });
      console.log(y.data.join());`;
    const { code, stdout, stderr } = await runNode(['--input-type=module', '--eval', program], { cwd: root, env: { WEBNN_CACHE: undefined, ...env } });
    assert.deepEqual([code, stderr], [0, '']);
    return stdout;
  }

  it('are kept as extra.webnn.cache says, or WEBNN_CACHE', async (t) => {
    const { folder, source, cache } = setting(t);
    const expected = await resultOf(source, {});
    const user = join(folder, 'user');
    const [a, b, c] = ['a', 'b', 'c'].map((name) => join(cache, name));
    for (const [options, env, where] of [
      [{ extra: { webnn: { cache: a } } }, {}, a],
      [{ extra: { 'webnn.cache': b } }, {}, b],
      [{}, { WEBNN_CACHE: c }, c],
      [{ extra: { webnn: { cache: '1' } } }, { WEBNN_CACHE: '0', WEBNN_CACHE_DIR: user }, join(user, 'weights')],
    ]) {
      for (let i = 0; i < 2; i++) assert.equal(await resultOf(source, options, env), expected);
      const { files } = await listCache(String(where));
      assert.deepEqual(
        files.map(({ model: of }) => realpathSync.native(String(of))),
        [source],
      );
    }
    const absent = join(folder, 'absent');
    await resultOf(source, { extra: { webnn: { cache: '0' } } }, { WEBNN_CACHE: absent });
    await resultOf(source, {}, { WEBNN_CACHE: '', WEBNN_CACHE_DIR: absent });
    assert.equal(existsSync(absent), false);
  });

  it('in the folder of the user, in another, or not at all', () => {
    const before = process.env.WEBNN_CACHE;
    const values = { 1: true, true: true, 0: false, off: false, false: false, '': false, './weights': './weights' };
    try {
      for (const [text, cache] of Object.entries(values)) {
        delete process.env.WEBNN_CACHE;
        assert.equal(toSessionSettings({ extra: { webnn: { cache: text } } }).cache, cache, text);
        assert.equal(toSessionSettings({}).cache, false);
        process.env.WEBNN_CACHE = text;
        assert.equal(toSessionSettings({}).cache, cache, text);
        assert.equal(toSessionSettings({ extra: { webnn: { cache: 'other' } } }).cache, 'other');
      }
    } finally {
      if (before === undefined) delete process.env.WEBNN_CACHE;
      else process.env.WEBNN_CACHE = before;
    }
  });

  it('extra.webnn.idle frees memory between runs, which compute the same', async () => {
    const session = await create({ extra: { webnn: { idle: '1' } } });
    for (let i = 0; i < 3; i++) {
      assert.deepEqual([...(await session.run({ x: x() })).y.data], [-1, -2]);
      await sleep(20);
    }
    await session.release();
  });

  it('and other entries of extra are checked', async () => {
    const settings = (/** @type {object} */ extra) => toSessionSettings({ extra });
    assert.equal(settings({ webnn: { idle: '60000' } }).idle, 60_000);
    assert.deepEqual(settings({ webnn: { cache: '1' } }).notes, []);
    assert.deepEqual(settings({ session: { a: '1' }, webnn: { cache: '1' } }).notes, ['extra has no effect']);
    for (const idle of ['0', '-1', '1.5', 'long', '', '4294967296']) {
      await assert.rejects(create({ extra: { webnn: { idle } } }), { name: 'RangeError', message: /webnn\.idle is "/ });
    }
    await assert.rejects(create({ extra: { webnn: { cash: '1' } } }), {
      name: 'TypeError',
      message: /entry "webnn\.cash", expected one of webnn\.cache, webnn\.idle/,
    });
    await assert.rejects(create({ extra: { webnn: { cache: true } } }), {
      name: 'TypeError',
      message: /extra\.webnn\.cache is of type boolean, expected a string/,
    });
  });
});

describe('run options', () => {
  it('are checked as onnxruntime-node checks them', async () => {
    const session = await create();
    /** @type {any[]} */
    const accepted = [
      {},
      { logSeverityLevel: 4 },
      { tag: 'x' },
      { logVerbosityLevel: 'x' },
      { terminate: 5 },
      { terminate: true },
      { extra: 5 },
      { unknown: 1 },
      Object.freeze({ tag: 'x' }),
    ];
    for (const options of accepted) {
      assert.deepEqual([...(await session.run({ x: x() }, options)).y.data], [-1, -2]);
      assert.deepEqual([...(await session.run({ x: x() }, ['y'], options)).y.data], [-1, -2]);
    }
    /** @type {[any, string, RegExp][]} */
    const refused = [
      [{ logSeverityLevel: 'x' }, 'TypeError', /logSeverityLevel/],
      [{ logSeverityLevel: undefined }, 'TypeError', /logSeverityLevel/],
      [{ logSeverityLevel: 8 }, 'RangeError', /logSeverityLevel/],
      [{ logSeverityLevel: 0.5 }, 'RangeError', /logSeverityLevel/],
      [{ tag: 5 }, 'TypeError', /tag/],
      [{ tag: undefined }, 'TypeError', /tag/],
    ];
    for (const [options, name, message] of refused) {
      await assert.rejects(session.run({ x: x() }, options), { name, message });
      await assert.rejects(session.run({ x: x() }, { y: null }, options), { name, message });
    }
  });
});

// Hostile values for every argument: an Error or a result, and the process and the session live on.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { InferenceSession, Tensor } from 'webnn-node-ort';
import { generator } from '../../../__test__/lib/random.mjs';
import { runProgram, sums } from './support.mjs';

const floats = (...numbers) => Float32Array.from(numbers);

/** New ones for each use, because some end what they are used in. */
const hostile = () => [
  undefined,
  null,
  true,
  NaN,
  -0,
  -1,
  0.5,
  2 ** 31,
  2 ** 53,
  Infinity,
  5n,
  '',
  'x',
  'text\ud800',
  '\0',
  '__proto__',
  'x'.repeat(100_000),
  Symbol('s'),
  [],
  [1],
  [1, 'two', {}],
  [null],
  new Array(3),
  {},
  () => {},
  class {},
  new Date(),
  new Map([['a', 1]]),
  new Set([1]),
  /x/,
  new Error('e'),
  Promise.resolve(),
  new WeakRef({}),
  Object.create(null),
  Object.freeze({}),
  floats(),
  floats(1, 2),
  new Uint8Array(8),
  new ArrayBuffer(8),
  new SharedArrayBuffer(8),
  new DataView(new ArrayBuffer(8)),
  new Float64Array(2),
  new Float32Array(new ArrayBuffer(8, { maxByteLength: 16 })),
  new Tensor('float32', [1, 2], [1, 2]),
  new Tensor('string', ['a'], [1]),
  new Proxy(
    {},
    {
      get() {
        throw new RangeError('trap');
      },
    },
  ),
  new Proxy([], {
    get() {
      throw new RangeError('trap');
    },
  }),
  new Proxy(
    {},
    {
      has() {
        throw new RangeError('trap');
      },
    },
  ),
  new Proxy(
    {},
    {
      ownKeys() {
        throw new RangeError('trap');
      },
    },
  ),
  {
    toString() {
      throw new RangeError('text');
    },
  },
  {
    valueOf() {
      throw new RangeError('number');
    },
  },
  {
    get data() {
      throw new RangeError('getter');
    },
  },
  {
    then(resolve) {
      resolve(1);
    },
  },
  { name: 'cpu', then: null },
  { length: 2 ** 32 },
  { 0: 'cpu', length: 1 },
  { path: 'x', data: floats(1) },
  globalThis,
  globalThis.process,
];

/** The fields of a Tensor behind its properties. */
const FIELDS = { data: 'cpuData', location: 'dataLocation', gpuBuffer: 'gpuBufferData', mlTensor: 'mlTensorData' };

const model = sums();
const good = () => ({ a: new Tensor('float32', [1, 2], [1, 2]), b: new Tensor('float32', [3, 4], [1, 2]) });

/** Asserts that something fits by chance, or fails with an Error that hides no defect. */
async function fitsOrFails(promise, what) {
  let result;
  try {
    result = await promise;
  } catch (error) {
    assert.ok(error instanceof Error, `${what}: ${typeof error}`);
    assert.doesNotMatch(error.message, /internal error|panicked|not implemented/, what);
    return;
  }
  await result.release?.();
}

async function check(session) {
  const { sum } = await session.run(good());
  assert.deepEqual([...sum.data], [4, 6]);
}

describe('hostile values', () => {
  it('as a model, its place in a buffer, options and each of them', async () => {
    const names = [
      'executionProviders',
      'intraOpNumThreads',
      'interOpNumThreads',
      'graphOptimizationLevel',
      'enableCpuMemArena',
      'enableMemPattern',
      'optimizedModelFilePath',
      'extra',
      'executionMode',
      'logId',
      'logSeverityLevel',
      'enableProfiling',
      'profileFilePrefix',
      'externalData',
      'preferredOutputLocation',
      'freeDimensionOverrides',
      'unknown',
    ];
    const { buffer } = Uint8Array.from(model);
    for (const [at, bad] of hostile().entries()) {
      await fitsOrFails(InferenceSession.create(bad), `model ${at}`);
      await fitsOrFails(InferenceSession.create(model, bad), `options ${at}`);
      await fitsOrFails(InferenceSession.create(buffer, bad), `byteOffset ${at}`);
      await fitsOrFails(InferenceSession.create(buffer, 0, bad), `byteLength ${at}`);
      await fitsOrFails(InferenceSession.create(buffer, 0, buffer.byteLength, bad), `last ${at}`);
      for (const name of names) {
        await fitsOrFails(InferenceSession.create(model, { logSeverityLevel: 4, [name]: bad }), `${name} ${at}`);
      }
      const inside = [
        { executionProviders: [bad] },
        { executionProviders: [{ name: bad }] },
        { executionProviders: [{ name: 'webgpu', preferredLayout: bad }] },
        { extra: { a: bad } },
        { externalData: [bad] },
        { externalData: [{ path: bad, data: new Uint8Array(1) }] },
        { externalData: [{ path: 'x', data: bad }] },
        { preferredOutputLocation: { sum: bad } },
      ];
      for (const options of inside) {
        await fitsOrFails(InferenceSession.create(model, { logSeverityLevel: 4, ...options }), `${Object.keys(options)} ${at}`);
      }
    }
    await check(await InferenceSession.create(model));
  });

  it('as feeds, fetches, options of runs, and properties of tensors', async () => {
    const session = await InferenceSession.create(model);
    /** @type {any} */
    const valid = { type: 'float32', dims: [1, 2], data: floats(1, 2), location: 'cpu' };
    for (const [at, bad] of hostile().entries()) {
      await fitsOrFails(session.run(bad), `feeds ${at}`);
      await fitsOrFails(session.run({ ...good(), a: bad }), `feed ${at}`);
      await fitsOrFails(session.run(good(), bad), `fetches ${at}`);
      await fitsOrFails(session.run(good(), [bad]), `name ${at}`);
      await fitsOrFails(session.run(good(), { sum: bad }), `fetch ${at}`);
      await fitsOrFails(session.run(good(), ['sum'], bad), `options ${at}`);
      await fitsOrFails(session.run(good(), { tag: bad }), `tag ${at}`);
      await fitsOrFails(session.run(good(), { logSeverityLevel: bad }), `severity ${at}`);
      for (const name of [...Object.keys(valid), 'gpuBuffer', 'mlTensor']) {
        const location = { gpuBuffer: 'gpu-buffer', mlTensor: 'ml-tensor' }[name] ?? 'cpu';
        await fitsOrFails(session.run({ ...good(), a: { ...valid, location, [name]: bad } }), `${name} ${at}`);
        const target = Object.assign(new Tensor('float32', [0, 0], [1, 2]), { dataLocation: location }, { [FIELDS[name] ?? name]: bad });
        await fitsOrFails(session.run(good(), { sum: target }), `${name} of a fetch ${at}`);
      }
      await fitsOrFails(session.run({ ...good(), a: { ...valid, dims: [1, bad] } }), `size ${at}`);
      await check(session);
    }
  });

  it('as bytes of a model: any of them changed, or the end missing', async () => {
    const random = generator(7);
    for (let round = 0; round < 300; round++) {
      const bytes = Uint8Array.from(model);
      for (let changes = random.below(4); changes >= 0; changes--) bytes[random.below(bytes.length)] = random.below(256);
      const damaged = bytes.subarray(0, random.chance(0.5) ? bytes.length : random.below(bytes.length));
      const session = await InferenceSession.create(damaged).catch((error) => {
        assert.equal(error.name, 'Error');
        assert.doesNotMatch(error.message, /internal error|panicked/);
      });
      if (session !== undefined) {
        await fitsOrFails(session.run(good()), `round ${round}`);
        await session.release();
      }
    }
  });

  it('as arguments that act while they are read', async () => {
    const session = await InferenceSession.create(model);
    /** @type {(key: string, act: () => unknown) => any} */
    const acting = (key, act) =>
      Object.defineProperty({ type: 'float32', dims: [1, 2], data: floats(1, 2), location: 'cpu' }, key, {
        get() {
          act();
          return { type: 'float32', dims: [1, 2], data: floats(1, 2), location: 'cpu' }[key];
        },
      });
    for (const key of ['type', 'dims', 'data', 'location']) {
      const feeds = good();
      const { buffer } = feeds.a.data;
      // The other feed was read before: its data are gone now.
      await fitsOrFails(
        session.run({ ...feeds, b: acting(key, () => structuredClone(buffer, { transfer: buffer.byteLength > 0 ? [buffer] : [] })) }),
        `${key} detaches`,
      );
      await fitsOrFails(session.run({ ...good(), a: acting(key, () => session.run(good())) }), `${key} runs`);
    }
    await check(session);
    for (const key of ['type', 'dims', 'data', 'location']) {
      const other = await InferenceSession.create(model);
      await fitsOrFails(other.run({ ...good(), a: acting(key, () => other.release().catch(() => {})) }), `${key} releases`);
    }
  });

  it('in prototypes that were changed', async () => {
    const { code, stdout, stderr } = await runProgram(`
      import { InferenceSession, Tensor } from 'webnn-node-ort';
      import { negate } from './__test__/support.mjs';
      const session = await InferenceSession.create(negate());
      Object.prototype.logSeverityLevel = 'x';
      console.log(await session.run({ x: new Tensor('float32', [1], [1]) }).catch(({ message }) => message));
      delete Object.prototype.logSeverityLevel;
      console.log((await session.run({ x: new Tensor('float32', [1], [1]) })).y.data[0]);`);
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(stdout, /logSeverityLevel.*\n-1$/);
  });
});

// The Tensors that runs give: their data are made when somebody reads them.

import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { describe, it } from 'node:test';
import { InferenceSession, Tensor } from 'webnn-node-ort';
import { FLOAT, negate, node, runNode, root, value, writeModel } from './support.mjs';
import { defined, wrong } from '../../../__test__/lib/types.mjs';

/** So many that a result is not copied before it is read. */
const MANY = 1_000_000;

const ones = () => new Tensor('float32', new Float32Array(MANY).fill(1), [MANY]);
const isRead = (tensor) => defined(Object.getOwnPropertyDescriptor(tensor, 'cpuData')).get === undefined;

async function unreadResult() {
  const session = await InferenceSession.create(negate());
  const { y } = await session.run({ x: ones() });
  assert.ok(!isRead(y));
  return { session, y };
}

describe('a result', () => {
  it('has all properties of a Tensor before its data are read', async () => {
    const { y } = await unreadResult();
    assert.ok(y instanceof Tensor);
    assert.deepEqual(Object.keys(y), Object.keys(ones()));
    assert.deepEqual([y.type, y.dims, y.size, y.location], ['float32', [MANY], MANY, 'cpu']);
    assert.match(inspect(y), /float32/);
    assert.ok(!isRead(y));
    assert.equal(y.data.length, MANY);
    assert.ok(isRead(y));
    assert.ok(y.data.every((number) => number === -1));
    assert.equal(y.data, y.data);
    assert.equal(await y.getData(), y.data);
  });

  it('is fed back unread, to its session, to another and under another shape', async () => {
    const { session, y } = await unreadResult();
    const again = (await session.run({ x: y })).y;
    const other = await InferenceSession.create(negate(FLOAT, ['rows', 'columns']));
    assert.ok(!isRead(y));
    assert.equal(again.data[0], 1);
    await assert.rejects(other.run({ x: y }), { name: 'Error', message: /"x"/ });
    const { y: matrix } = await other.run({ x: y.reshape([1000, 1000]) });
    assert.deepEqual([matrix.dims, matrix.data[0], matrix.size], [[1000, 1000], 1, MANY]);
    const flat = await InferenceSession.create(negate());
    const { y: elsewhere } = await flat.run({ x: (await session.run({ x: ones() })).y });
    assert.equal(elsewhere.data[MANY - 1], 1);
  });

  it('is fed as it is after it was changed', async () => {
    const { session, y } = await unreadResult();
    y.data[0] = 7;
    assert.equal((await session.run({ x: y })).y.data[0], -7);
    const { y: replaced } = await session.run({ x: ones() });
    Object.assign(replaced, { cpuData: new Float32Array(MANY).fill(3) });
    assert.equal((await session.run({ x: replaced })).y.data[0], -3);
    const { y: cut } = await session.run({ x: ones() });
    Object.assign(cut, { dims: [5] });
    assert.deepEqual((await session.run({ x: cut })).y.dims, [5]);
  });

  it('can be disposed, cloned, copied and frozen, read or not', async () => {
    const { session, y } = await unreadResult();
    const clone = /** @type {any} */ (structuredClone(y));
    assert.deepEqual([clone.type, clone.dims, clone.cpuData[0]], ['float32', [MANY], -1]);
    const { y: spread } = await session.run({ x: ones() });
    assert.equal(/** @type {any} */ ({ ...spread }).cpuData[0], -1);
    const { y: disposed } = await session.run({ x: ones() });
    disposed.dispose();
    assert.throws(() => disposed.data, /disposed/);
    await assert.rejects(session.run({ x: disposed }), { name: 'RangeError', message: /disposed/ });
    const { y: frozen } = await session.run({ x: ones() });
    Object.freeze(frozen);
    assert.equal(frozen.data[5], -1);
    assert.equal((await session.run({ x: frozen })).y.data[5], 1);
  });

  it('owns its memory, which can be transferred, and nobody else writes to it', async () => {
    const session = await InferenceSession.create(negate());
    for (const size of [2, MANY]) {
      const feeds = { x: new Tensor('float32', new Float32Array(size).fill(1), [size]) };
      const { y } = await session.run(feeds);
      const data = /** @type {Float32Array<ArrayBuffer>} */ (y.data);
      assert.equal(data.byteOffset, 0);
      assert.equal(data.buffer.byteLength, 4 * size);
      const { y: next } = await session.run(feeds);
      /** @type {Float32Array} */ (next.data).fill(9);
      assert.ok(y.data.every((number) => number === -1));
      const moved = structuredClone(data, { transfer: [data.buffer] });
      assert.equal(moved.length, size);
      assert.equal(y.data.length, 0);
      await assert.rejects(session.run({ x: y }), { name: 'Error', message: /detached/ });
    }
  });

  it('outlives its session', async () => {
    const { session, y } = await unreadResult();
    await session.release();
    assert.equal(y.data[MANY - 1], -1);
  });

  /** MB that 100 results, 400 in all, may leave behind: those that are not collected yet, and free pages. 36 were measured. */
  const KEPT = 100;

  it('gives its memory back when nobody holds it', async (t) => {
    const { code, stdout, stderr } = await runNode(
      [
        '--expose-gc',
        '--input-type=module',
        '--eval',
        `
      import { InferenceSession, Tensor } from 'webnn-node-ort';
      import { collectGarbage } from '../../__test__/lib/wait.mjs';
      import { negate } from './__test__/support.mjs';
      const session = await InferenceSession.create(negate());
      let y = new Tensor('float32', new Float32Array(${MANY}), [${MANY}]);
      const used = [];
      for (let i = 0; i < 200; i++) {
        y = (await session.run({ x: y })).y;
        if (i % 3 === 0) y.data;
        if (i % 20 === 19) await collectGarbage();
        if (i % 100 === 99) used.push(process.memoryUsage.rss());
      }
      console.log((used[1] - used[0]) / 1e6);`,
      ],
      { cwd: root },
    );
    assert.deepEqual([code, stderr], [0, '']);
    t.diagnostic(`${stdout} MB more`);
    assert.ok(Number(stdout) < KEPT, `${stdout} MB more`);
  });

  it('stays on the device where that is preferred, until its data are asked for', async () => {
    const model = writeModel({
      inputs: [value('x', FLOAT, ['n'])],
      outputs: [value('y', FLOAT, ['n']), value('z', FLOAT, ['n'])],
      nodes: [node('Neg', ['x'], ['y']), node('Abs', ['x'], ['z'])],
    });
    const session = await InferenceSession.create(model, { preferredOutputLocation: { y: 'ml-tensor' } });
    const { y, z } = await session.run({ x: new Tensor('float32', [1, -2], [2]) });
    assert.deepEqual([y.location, z.location], ['ml-tensor', 'cpu']);
    assert.deepEqual([y.type, y.dims, y.size], ['float32', [2], 2]);
    assert.throws(() => y.data, /not on CPU/);
    const { y: fedBack } = await session.run({ x: y });
    assert.deepEqual([...(await fedBack.getData(true))], [1, -2]);
    assert.equal(fedBack.location, 'cpu');
    assert.deepEqual([...(await y.getData())], [-1, 2]);
    const { y: disposed } = await session.run({ x: new Tensor('float32', [1, -2], [2]) });
    const { mlTensor } = disposed;
    disposed.dispose();
    await assert.rejects(session.run({ x: wrong({ type: 'float32', dims: [2], location: 'ml-tensor', mlTensor }) }), { name: 'Error' });
    const { y: target } = await session.run({ x: new Tensor('float32', [3, 3], [2]) });
    await session.run({ x: new Tensor('float32', [4, 4], [2]) }, { y: target });
    assert.deepEqual([...(await target.getData())], [-4, -4]);
  });
});

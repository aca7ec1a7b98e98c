/** Sizes that a file or data decide: what would need too much memory or time is refused, in whatever form it comes. */

import assert from 'node:assert/strict';
import { closeSync, ftruncateSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { temporaryFolder } from '../lib/folders.mjs';
import { runNode } from '../lib/processes.mjs';
import { BOOL, FLOAT, FLOAT16, INT4, INT64, UINT8, externalWeight, node, value, weight, writeModel } from '../onnx/model-writer.mjs';

const ONNX = new URL('../../onnx.js', import.meta.url).href;

/** Address space for a process, in bytes: Node takes some GiB of it before anything is loaded. */
const SPACE = 8.5 * 2 ** 30;

/**
 * Writes a model, and beside it a file of zeros that takes no room on the disk.
 *
 * @param {import('node:test').TestContext} t
 * @param {Parameters<typeof writeModel>[0]} model
 * @param {number} bytes of the file `zeros`
 */
function modelWithZeros(t, model, bytes) {
  const folder = temporaryFolder(t);
  const path = join(folder, 'model.onnx');
  writeFileSync(path, writeModel(model));
  const file = openSync(join(folder, 'zeros'), 'w');
  ftruncateSync(file, bytes);
  closeSync(file);
  return path;
}

/** A weight of zeros from that file. */
const zeros = (name, dims, elementType, bytes) => ({ ...externalWeight(name, dims, 'zeros', 0, bytes), data_type: elementType });

/**
 * Runs code in a process with limited memory, and returns the JSON that it prints. `measured()` returns the seconds of
 * computing and the MiB of memory that a function takes.
 *
 * @param {string} code
 */
async function limited(code) {
  const program = `
    import { execFileSync } from 'node:child_process';
    import { loadModel } from ${JSON.stringify(ONNX)};
    execFileSync('prlimit', ['--pid', String(process.pid), '--as=${SPACE}']);
    const outcome = (promise) => promise.then((value) => ({ value }), ({ name, code, message }) => ({ name, code, message: message.slice(0, 500) }));
    const measured = async (work) => {
      const [before, memory] = [process.cpuUsage(), process.memoryUsage.rss()];
      const value = await work();
      const { user, system } = process.cpuUsage(before);
      return { value, seconds: (user + system) / 1e6, mib: (process.resourceUsage().maxRSS / 1024 - memory / 2 ** 20) };
    };
    ${code}`;
  const { code: exit, signal, stdout, stderr } = await runNode(['--input-type=module', '-e', program]);
  assert.deepEqual({ exit, signal, stderr }, { exit: 0, signal: null, stderr: '' });
  return JSON.parse(stdout);
}

/** Only Linux limits the memory of a process from outside. */
const LINUX = { skip: process.platform !== 'linux' && 'it needs prlimit' };

const HUGE = 300e6;

/** Nodes that read many zeros, and why they are refused; null for one that selects nothing.
 *
 * @type {[what: string, node: any, elementType: number, bits: number, message: RegExp | null][]} */
const READERS = [
  ['a bound', node('Clip', ['x', 'z'], ['y']), UINT8, 8, /\[y\] Clip.*min \(input 1\) has 300000000 elements, expected at most 1048576/],
  ['a shape', node('Reshape', ['x', 'z'], ['y']), INT64, 64, /\[y\] Reshape.*shape \(input 1\) has 300000000 elements/],
  ['axes', node('ReduceSum', ['x', 'z'], ['y']), INT64, 64, /\[y\] ReduceSum.*axes \(input 1\) has 300000000 elements/],
  ['places', node('Slice', ['x', 'z', 'one', 'one'], ['y']), INT64, 64, /\[y\] Slice.*starts \(input 1\) has 300000000 elements/],
  ['a condition', node('Compress', ['x', 'z'], ['y'], { axis: { i: 0 } }), BOOL, 8, null],
];

for (const [what, reader, elementType, bits, message] of READERS) {
  test(`${what} of 300 million elements does not end the process`, LINUX, async (t) => {
    const bytes = (HUGE * bits) / 8;
    const model = {
      inputs: [value('x', FLOAT, [2])],
      outputs: [value('y', FLOAT)],
      weights: [zeros('z', [HUGE], elementType, bytes), weight('one', [1], BigInt64Array.of(1n))],
      nodes: [reader],
    };
    const path = modelWithZeros(t, model, bytes);
    const run = await limited(`
      const run = async (model) => (await model.run({ x: Float32Array.of(1, 2) })).y.shape;
      console.log(JSON.stringify(await outcome(loadModel(${JSON.stringify(path)}, { device: 'cpu' }).then(run))));`);
    if (message === null) {
      assert.deepEqual(run, { value: [0] });
    } else {
      assert.equal(run.code, 'ERR_WEBNN_UNSUPPORTED_OPERATOR', run.message);
      assert.match(run.message, message);
    }
  });
}

test('a constant of a foreign type costs the same for one reader and for forty', LINUX, async (t) => {
  const COUNT = 2e6;
  const dequantized = (/** @type {string} */ name) => [node('DequantizeLinear', ['z', 'scale'], [`${name}f`]), node('Mul', [`${name}f`, 'x'], [name])];
  for (const [what, elementType, bits, read, most] of /** @type {const} */ ([
    ['bfloat16', 16, 16, (/** @type {string} */ name) => [node('Mul', ['z', 'x'], [name])], 100],
    // What each node dequantizes is a constant of its own.
    ['int4', INT4, 4, dequantized, 400],
  ])) {
    const paths = [1, 40].map((readers) => {
      const sums = Array.from({ length: readers }, (_, index) => `sum${index}`);
      const model = {
        inputs: [value('x', FLOAT, [1])],
        outputs: [value('y', FLOAT)],
        weights: [zeros('z', [COUNT], elementType, (COUNT * bits) / 8), weight('scale', [], Float32Array.of(1)), weight('axis', [1], BigInt64Array.of(0n))],
        nodes: [...sums.flatMap((sum) => [...read(`${sum}r`), node('ReduceSum', [`${sum}r`, 'axis'], [sum])]), node('Sum', sums, ['y'])],
      };
      return modelWithZeros(t, model, (COUNT * bits) / 8);
    });
    const [one, many] = await limited(`
      const results = [];
      for (const path of ${JSON.stringify(paths)}) {
        results.push(await measured(async () => { (await loadModel(path, { device: 'cpu', numThreads: 1 })).destroy(); return null; }));
      }
      console.log(JSON.stringify(results));`);
    t.diagnostic(`${what}: ${one.seconds.toFixed(2)} and ${many.seconds.toFixed(2)} s, ${one.mib.toFixed(0)} and ${many.mib.toFixed(0)} MiB`);
    assert.ok(many.seconds < 6 * one.seconds + 1, `${what}: ${one.seconds} s for one reader, ${many.seconds} s for forty`);
    assert.ok(many.mib < most, `${what}: ${many.mib} MiB for forty readers`);
  }
});

test('what data select needs little more memory than the data', LINUX, async (t) => {
  const COUNT = 8e6;
  const selecting = {
    NonZero: node('NonZero', ['mask'], ['y']),
    Unique: node('Unique', ['mask'], ['y', 'first', 'inverse', 'counts']),
    Compress: node('Compress', ['mask', 'mask'], ['y']),
  };
  for (const [operator, selects] of Object.entries(selecting)) {
    const model = {
      inputs: [value('x', UINT8, ['n'])],
      outputs: [value('y', INT64)],
      nodes: [node('Identity', ['x'], ['mask']), selects],
    };
    const path = modelWithZeros(t, model, 1);
    const {
      value: shape,
      mib,
      seconds,
    } = await limited(`
      const model = await loadModel(${JSON.stringify(path)}, { device: 'cpu', numThreads: 1 });
      const x = new Uint8Array(${COUNT});
      for (let at = 0; at < x.length; at += 1000) x[at] = 1;
      await model.run({ x: new Uint8Array(10) });
      console.log(JSON.stringify(await measured(async () => (await model.run({ x })).y.shape)));`);
    const selected = COUNT / 1000;
    assert.deepEqual(shape, { NonZero: [1, selected], Unique: [2], Compress: [selected] }[operator]);
    t.diagnostic(`${operator}: ${mib.toFixed(0)} MiB, ${seconds.toFixed(2)} s`);
    // The data are copied several times; one byte each. Rows of Unique have places of 4 to 8 bytes each.
    const most = operator === 'Unique' ? 40 : 8;
    assert.ok(mib * 2 ** 20 < most * COUNT, `${operator}: ${mib} MiB for ${COUNT} bytes`);
  }
});

test('a table above 2 GiB is read where it is large, and refused with its name where it is too large', LINUX, async (t) => {
  const [rows, columns] = [2 ** 20 + 1, 1024];
  const table = (/** @type {number[]} */ dims, /** @type {number} */ bytes) => ({
    inputs: [value('i', INT64, [2])],
    outputs: [value('y', FLOAT16, [2, dims[1]])],
    weights: [zeros('table', dims, FLOAT16, bytes)],
    nodes: [node('Gather', ['table', 'i'], ['y'])],
  });
  const bytes = rows * columns * 2;
  assert.ok(bytes > 2 ** 31);
  const [large, larger] = [modelWithZeros(t, table([rows, columns], bytes), bytes), modelWithZeros(t, table([2 ** 21, 1024], 2 ** 32), 2 ** 32)];
  const [read, refused] = await limited(`
    const load = (path) => loadModel(path, { device: 'cpu' });
    const model = await load(${JSON.stringify(large)});
    const { y } = await model.run({ i: BigInt64Array.of(0n, ${rows - 1}n) });
    console.log(JSON.stringify([[y.shape, y.data.length, y.data.every((number) => number === 0)], await outcome(load(${JSON.stringify(larger)}))]));`);
  assert.deepEqual(read, [[2, columns], 2 * columns, true]);
  assert.equal(refused.code, 'ERR_WEBNN_UNSUPPORTED_OPERATOR', refused.message);
  assert.match(refused.message, /tensor "table": the shape \[2097152, 1024\] has more than 2147483647 elements/);
});

/** Contexts on the GPU beside contexts on the CPU: which they are, what they say, the order of what they do. */

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { exception } from '../lib/exceptions.mjs';
import { checkListing, describeContext, describeGraph, squeezed, systemInfo } from '../inspect/helpers.mjs';
import { GPU_WANTED, MLGraphBuilder, floats, ml, operand, read, resultOf, runProcess } from '../runtime/helpers.mjs';
import { deviceOf } from './device.mjs';

/** Prints where contexts that ask for a GPU and others compute, and what. */
const DEVICES = `
import { describeGraph, systemInfo } from 'webnn-node/inspect';
const results = [];
for (const options of [helpers.GPU_WANTED, undefined, { accelerated: true }, { powerPreference: 'low-power' }, { ...helpers.GPU_WANTED, accelerated: false }]) {
  const context = await helpers.ml.createContext(options);
  const builder = new helpers.MLGraphBuilder(context);
  const graph = await builder.build({ y: builder.exp(builder.input('x', helpers.operand(2))) });
  const [x, y] = [await context.createTensor(helpers.floats(2)), await context.createTensor(helpers.floats(2))];
  context.writeTensor(x, new Float32Array([0, 1]));
  context.dispatch(graph, { x }, { y });
  const { adapter, isa } = describeGraph(graph);
  const near = (await helpers.read(context, y)).every((value, i) => Math.abs(value - Math.exp(i)) < 1e-5);
  results.push([context.accelerated, ...graph.devices, adapter === null, isa === null, near]);
}
console.log(JSON.stringify({ results, reason: systemInfo().gpuReason }));`;

/** What the program prints for contexts on the CPU. */
const OTHERS = [true, true, true, false].map((accelerated) => [accelerated, 'cpu', true, false, true]);

test('contexts that ask for a GPU are on it, others on the CPU, and graphs tell', async () => {
  const { results, reason } = await resultOf(DEVICES);
  assert.deepEqual(results, [[true, 'gpu', false, true, true], ...OTHERS]);
  assert.equal(reason, null);
});

test('software is no GPU unless it is asked for, and the CPU computes in silence', async () => {
  for (const value of ['', '0']) {
    const { code, stdout, stderr } = await runProcess(DEVICES, { env: { WEBNN_GPU_SOFTWARE: value } });
    assert.deepEqual([code, stderr], [0, '']);
    const { results, reason } = JSON.parse(stdout);
    // A hardware GPU would be used.
    const device = reason === null ? ['gpu', false, true, true] : ['cpu', true, false, true];
    assert.deepEqual(results, [[true, ...device], ...OTHERS]);
  }
});

/** Kills its own process as soon as the check of the driver has begun, and is counted. */
const CRASHING = `
import { readdirSync, readFileSync } from 'node:fs';
const folder = process.env.WEBNN_CACHE_DIR + '/';
const verdict = () => {
  const name = readdirSync(folder).find((file) => file.includes('-kernels_') && !/\\.(lock|new)$/.test(file));
  return name && readFileSync(folder + name, 'latin1');
};
const before = verdict();
void helpers.ml.createContext(helpers.GPU_WANTED);
setInterval(() => verdict() !== before && process.kill(process.pid, 'SIGKILL'), 1);`;

const REFUSED = `
import { describeContext } from 'webnn-node/inspect';
const contexts = [await helpers.ml.createContext(helpers.GPU_WANTED), await helpers.ml.createContext(helpers.GPU_WANTED)];
console.log(JSON.stringify(contexts.map(describeContext)));`;

test('a driver that crashes in its check twice is not used, with one warning', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'webnn-verdicts-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const env = { WEBNN_CACHE_DIR: folder };
  for (let i = 0; i < 2; i++) assert.equal((await runProcess(CRASHING, { env })).signal, 'SIGKILL');
  const { code, stdout, stderr } = await runProcess(REFUSED, { env });
  assert.equal(code, 0, stderr);
  const [first, second] = JSON.parse(stdout);
  assert.deepEqual([first.device, second.device], ['cpu', 'cpu']);
  assert.match(first.reason, /2 checks did not end: the driver crashed, or did not answer$/);
  assert.equal(stderr.split('[WARN_WEBNN_GPU]').length, 2, stderr);
  assert.ok(stderr.includes(`a GPU is not used: ${first.reason}`), stderr);
});

test('a description of a graph on the GPU', async () => {
  const { context, graph } = await squeezed(GPU_WANTED);
  const { source, compiled, steps, memory, passes, devices, isa, threads, adapter } = describeGraph(graph);
  assert.deepEqual([devices, isa, threads], [['gpu'], null, null]);
  assert.match(adapter, /^.+ \((vulkan|metal|dx12)\)$/);
  assert.deepEqual(describeContext(context), { device: 'gpu', adapter, reason: 'a GPU was asked for' });
  checkListing(source);
  checkListing(compiled);
  assert.ok(memory.constantBytes > 0 && memory.arenaBytes > 0 && passes.includes('epilogues'));
  for (const [index, step] of steps.entries()) {
    assert.equal(step.index, index);
    assert.equal(compiled.nodes[step.node].operator, step.operator);
    assert.ok(step.kernel.length > 0 && step.bytesRead > 0 && step.bytesWritten > 0);
  }
  const stem = steps.find(({ label }) => label === 'stem');
  assert.equal(stem.multiplyAdds, 8 * 8 * 8 * 27);
  assert.deepEqual(compiled.nodes[stem.node].epilogue, ['relu']);
});

test('both kinds of contexts compute the same', async () => {
  const results = [];
  for (const [device, options] of /** @type {const} */ ([
    ['gpu', GPU_WANTED],
    ['cpu', {}],
  ])) {
    const { context, graph, inputs, outputs } = await squeezed(options);
    context.dispatch(graph, inputs, outputs);
    results.push(await read(context, outputs.classes));
    assert.deepEqual(graph.devices, [device]);
  }
  results[0].forEach((value, i) => assert.ok(Math.abs(value - results[1][i]) < 1e-5, `${results}`));
});

test('what is of one device is refused by a context of another', async () => {
  const [gpu, cpu] = await Promise.all([ml.createContext(GPU_WANTED), ml.createContext()]);
  assert.deepEqual([await deviceOf(gpu), await deviceOf(cpu)], ['gpu', 'cpu']);
  const tensor = await gpu.createTensor(floats(1));
  const otherContext = exception('TypeError', /belongs to another context/);
  assert.throws(() => cpu.writeTensor(tensor, new Float32Array(1)), otherContext);
  await assert.rejects(cpu.readTensor(tensor), otherContext);
});

test('promises are settled in the order of what they wait for', async () => {
  const context = await ml.createContext(GPU_WANTED);
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ y: builder.add(builder.input('x', operand(1)), builder.constant('float32', 1)) });
  const tensors = await Promise.all([context.createTensor(floats(1)), context.createTensor(floats(1))]);
  const order = /** @type {(number | string)[]} */ ([]);
  const waiting = /** @type {Promise<unknown>[]} */ ([]);
  context.writeTensor(tensors[0], new Float32Array([0]));
  for (let i = 0; i < 40; i++) {
    const [x, y] = [tensors[i % 2], tensors[(i + 1) % 2]];
    context.dispatch(graph, { x }, { y });
    waiting.push(read(context, y).then(([value]) => order.push(value)));
    if (i % 10 === 9) {
      waiting.push(context.createTensor(floats(1)).then(() => order.push(`tensor after ${i + 1}`)));
    }
  }
  await Promise.all(waiting);
  const expected = Array.from({ length: 40 }, (_, i) => (i % 10 === 9 ? [i + 1, `tensor after ${i + 1}`] : [i + 1]));
  assert.deepEqual(order, expected.flat());
});

test('the time that dispatch() takes of the JavaScript thread', async (t) => {
  const { context, graph, inputs, outputs } = await squeezed(GPU_WANTED);
  const times = [];
  for (let i = 0; i < 300; i++) {
    const start = performance.now();
    context.dispatch(graph, inputs, outputs);
    times.push((performance.now() - start) * 1000);
    if (i % 10 === 9) {
      await context.readTensor(outputs.classes);
    }
  }
  times.sort((a, b) => a - b);
  t.diagnostic(`dispatch(): median ${times[150].toFixed(1)} us, 95th percentile ${times[285].toFixed(1)} us`);
  const sum = (await read(context, outputs.classes)).reduce((a, b) => a + b);
  assert.ok(Math.abs(sum - 1) < 1e-5, `the softmax sums up to ${sum}`);
});

/** A device that says of its adapter what one of npm's `webgpu` would. __test__/external/runtimes has tests with real ones. */
class GPUDevice {
  constructor(adapterInfo) {
    this.adapterInfo = adapterInfo;
  }
}

/** @returns {any} a stub with only some members of the declared type */
const deviceWith = (adapterInfo) => new GPUDevice(adapterInfo);

test('a GPUDevice is known by what it says of its adapter', async () => {
  const [{ name }] = systemInfo().gpuAdapters.filter(({ unused }) => unused === null);
  const context = await ml.createContext(deviceWith({ vendor: 'mesa', device: '0x0000', description: name }));
  assert.equal(context.accelerated, true);
  assert.equal(await deviceOf(context), 'gpu');
  assert.equal(describeContext(context).reason, 'it is the adapter of the GPUDevice');
  for (const [info, message] of /** @type {[object | undefined, RegExp][]} */ ([
    [{ vendor: '3dfx', device: '0x0002', description: 'Voodoo2' }, /description "Voodoo2"\) is not found among the adapters/],
    [{}, /is not found among the adapters/],
    [undefined, /has no adapterInfo/],
  ])) {
    await assert.rejects(ml.createContext(deviceWith(info)), exception('NotSupportedError', message));
  }
});

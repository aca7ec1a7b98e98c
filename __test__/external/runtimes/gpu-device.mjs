/** Contexts of a GPUDevice, in runtimes that have WebGPU. scripts/suites/runtimes.mjs runs it, with software Vulkan. */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const { ml, MLGraphBuilder } = createRequire(import.meta.url)('../../../index.js');
const { describeGraph } = createRequire(import.meta.url)('../../../inspect.js');

/** Lets contexts use software, or not. */
function allowSoftware(isAllowed) {
  process.env.WEBNN_GPU_SOFTWARE = isAllowed ? '1' : '0';
}

async function softwareDevice() {
  const adapter = await /** @type {any} */ (navigator).gpu.requestAdapter({ forceFallbackAdapter: true });
  return adapter.requestDevice();
}

test('a context of a GPUDevice is on its adapter', async (t) => {
  allowSoftware(true);
  const device = await softwareDevice();
  const { vendor, architecture, device: model, description, isFallbackAdapter } = device.adapterInfo;
  t.diagnostic(JSON.stringify({ vendor, architecture, device: model, description, isFallbackAdapter }));
  const context = await ml.createContext(device);
  assert.equal(context.accelerated, true);
  const builder = new MLGraphBuilder(context);
  const descriptor = { dataType: 'float32', shape: [3], readable: true, writable: true };
  const graph = await builder.build({ y: builder.sqrt(builder.input('x', descriptor)) });
  assert.deepEqual(graph.devices, ['gpu']);
  assert.ok(describeGraph(graph).adapter.startsWith(description || model), describeGraph(graph).adapter);
  const [x, y] = await Promise.all([context.createTensor(descriptor), context.createTensor(descriptor)]);
  context.writeTensor(x, new Float32Array([1, 4, 9]));
  context.dispatch(graph, { x }, { y });
  const results = new Float32Array(await context.readTensor(y));
  results.forEach((value, i) => assert.ok(Math.abs(value - (i + 1)) < 1e-5, `${results}`));
  context.destroy();
  device.destroy();
});

test('a GPUDevice of software is refused where software is not asked for', async () => {
  allowSoftware(false);
  const device = await softwareDevice();
  await assert.rejects(ml.createContext(device), (/** @type {Error} */ error) => {
    assert.equal(error.name, 'NotSupportedError');
    assert.match(error.message, /^createContext: the adapter of the GPUDevice \(.*\) is software, .*WEBNN_GPU_SOFTWARE is 1$/);
    return true;
  });
  device.destroy();
});

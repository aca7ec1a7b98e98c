import assert from 'node:assert/strict';
import { test } from 'node:test';

import { randomFloats } from '../lib/random.mjs';
import { invalidState, typeError } from '../lib/exceptions.mjs';
import { MLGraphBuilder, checkListing, describeContext, describeGraph, floats, ml, squeezed } from './helpers.mjs';

test('a description lists the graph as given, as compiled for the CPU, and its steps', async () => {
  const { graph } = await squeezed({ accelerated: false, numThreads: 2 });
  const description = describeGraph(graph);
  assert.deepEqual(Object.keys(description).sort(), ['adapter', 'compiled', 'devices', 'isa', 'memory', 'passes', 'source', 'steps', 'threads']);
  const { source, compiled, steps, memory, passes, devices, isa, threads, adapter } = description;
  checkListing(source);
  checkListing(compiled);
  assert.equal(threads, 2);
  assert.deepEqual([devices, adapter], [['cpu'], null]);
  assert.ok(['portable', 'avx2', 'avx512', 'neon'].includes(isa));
  assert.deepEqual(passes, [
    'growing',
    'fold',
    'simplify',
    'patterns',
    'rows',
    'affine',
    'layout',
    'quantized',
    'weights',
    'epilogues',
    'chains',
    'beside',
    'views',
    'winograd',
  ]);
  assert.ok(memory.packedBytes > 0 && memory.arenaBytes > 0 && memory.constantBytes > 0);

  const labels = source.nodes.map(({ label }) => label);
  assert.equal(new Set(labels).size, source.nodes.length);
  source.nodes.forEach(({ id, origins }) => assert.deepEqual(origins, [id]));
  const origins = (label) => compiled.nodes.find((node) => node.label === label).origins.map((id) => labels[id]);
  assert.deepEqual(origins('stem'), ['stem', 'stem relu']);
  assert.deepEqual(origins('expand3'), ['expand3', 'expand3 relu']);
  assert.deepEqual(origins('softmax'), ['softmax']);
  const all = compiled.nodes.flatMap((node) => node.origins);
  assert.equal(new Set(all).size, all.length);
  // What was folded is gone.
  assert.deepEqual(
    labels.filter((_, id) => !all.includes(id)),
    ['scale'],
  );
  const stem = compiled.nodes.find(({ label }) => label === 'stem');
  assert.deepEqual(stem.epilogue, ['relu']);
  assert.deepEqual(stem.attributes, { inputLayout: 'nhwc', strides: [2, 2] });
  assert.deepEqual(
    stem.inputs.map((id) => compiled.values.find((value) => value.id === id).kind),
    ['node', 'constant', 'constant'],
  );
  assert.deepEqual(compiled.inputs, source.inputs);
  assert.equal(source.inputs[0].name, 'image');
  assert.equal(source.outputs[0].name, 'classes');

  for (const [index, step] of steps.entries()) {
    const { kernel, node, operator, label, multiplyAdds, bytesRead, bytesWritten } = step;
    assert.equal(step.index, index);
    assert.equal(compiled.nodes[node].operator, operator);
    assert.equal(compiled.nodes[node].label, label);
    assert.ok(kernel.length > 0 && bytesRead > 0 && bytesWritten > 0 && Number.isInteger(multiplyAdds));
  }
  const step = (label) => steps.find((step) => step.label === label);
  assert.deepEqual(step('stem'), {
    // Behind the transposition to channels last.
    index: 1,
    kernel: 'conv2d im2col',
    node: stem.id,
    operator: 'conv2d',
    label: 'stem',
    multiplyAdds: 8 * 8 * 8 * 27,
    bytesRead: (3 * 17 * 17 + 8 * 27 + 8) * 4,
    bytesWritten: 8 * 8 * 8 * 4,
  });
  assert.equal(step('squeeze').kernel, 'conv2d gemm');
  // Views share memory: they are nodes without a step.
  assert.ok(compiled.nodes.some(({ label }) => label === 'flat'));
  assert.equal(step('flat'), undefined);
  // With channels last, those of its operands lie apart.
  assert.equal(step('join').kernel, 'copy');
});

test('every description is new, and plain data', async () => {
  const { graph } = await squeezed();
  const [first, second] = [describeGraph(graph), describeGraph(graph)];
  assert.deepEqual(structuredClone(first), second);
  first.steps.length = 0;
  assert.deepEqual(describeGraph(graph), second);
});

test('an output that is computed elsewhere is a copy without a node', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const y = builder.softmax(builder.input('x', floats(4)), 0);
  const { steps } = describeGraph(await builder.build({ a: y, b: y }));
  assert.deepEqual(steps[1], {
    index: 1,
    kernel: 'copy',
    node: null,
    operator: 'copy',
    label: '',
    multiplyAdds: 0,
    bytesRead: 16,
    bytesWritten: 16,
  });
});

test('names, labels and numbers of any kind come through', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const name = '__proto__"\\\n\u2028ü🙂';
  const big = 2n ** 62n;
  const large = builder.clamp(builder.input('big', { dataType: 'int64', shape: [2] }), { minValue: -big, maxValue: 7 });
  const padded = builder.pad(builder.input(name, floats(2)), [1], [0], { value: -Infinity, label: name });
  const { source } = describeGraph(await builder.build({ large, constructor: padded }));
  const node = (operator) => source.nodes.find((node) => node.operator === operator);
  assert.deepEqual(node('clamp').attributes, { minValue: `${-big}`, maxValue: 7 });
  assert.equal(node('pad').attributes.value, '-Infinity');
  assert.ok(source.inputs.some((input) => input.name === name));
  assert.ok(source.outputs.some((output) => output.name === 'constructor'));
});

test('chains are programs, and what nothing needs is not listed', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', floats(4));
  builder.tan(x, { label: 'unused' });
  const y = builder.mul(builder.exp(x), builder.constant(floats(4), randomFloats(4)));
  const graph = await builder.build({ y });
  const { source, compiled, steps } = describeGraph(graph);
  assert.deepEqual(
    source.nodes.map(({ operator }) => operator),
    ['exp', 'mul'],
  );
  assert.equal(compiled.nodes.length, 1);
  assert.equal(compiled.nodes[0].operator, 'fused');
  assert.deepEqual(compiled.nodes[0].attributes, { program: ['exp(r0)', 'mul(r2 r1)'] });
  assert.deepEqual(compiled.nodes[0].origins, [0, 1]);
  assert.equal(steps[0].kernel, graph.devices[0] === 'gpu' ? 'elementwise' : 'elementwise fused');
});

test('what is no living graph is refused', async () => {
  const { context, graph, inputs } = await squeezed();
  assert.throws(() => describeGraph(), typeError(/^describeGraph: 1 argument required, 0 given$/));
  for (const wrong of [undefined, null, 1, {}, context, inputs.image, Object.create(graph)]) {
    assert.throws(() => describeGraph(wrong), typeError(/^describeGraph: graph is .*, expected an MLGraph$/));
  }
  graph.destroy();
  assert.throws(() => describeGraph(graph), invalidState);
  const other = await squeezed();
  other.context.destroy();
  assert.throws(() => describeGraph(other.graph), invalidState);
});

test('contexts on the CPU are described with the option that decided; what is no living context is refused', async () => {
  const { context, graph } = await squeezed({ accelerated: false });
  assert.deepEqual(describeContext(context), { device: 'cpu', adapter: null, reason: 'accelerated is false' });
  assert.notEqual(describeContext(context), describeContext(context));
  assert.throws(() => describeContext(), typeError(/^describeContext: 1 argument required, 0 given$/));
  for (const wrong of [undefined, null, {}, graph, Object.create(context)]) {
    assert.throws(() => describeContext(wrong), typeError(/^describeContext: context is .*, expected an MLContext$/));
  }
  context.destroy();
  assert.throws(() => describeContext(context), invalidState);
});

test('a description does not wait for the graph to be idle', async () => {
  const context = await ml.createContext({ numThreads: 1 });
  const builder = new MLGraphBuilder(context);
  // Some milliseconds each: much more than what is done meanwhile, also by a thread that loses its core.
  const matrix = { dataType: 'float32', shape: [256, 256] };
  let product = builder.input('x', matrix);
  for (let i = 0; i < 20; i++) product = builder.matmul(product, product);
  const graph = await builder.build({ y: product });
  const x = await context.createTensor({ ...matrix, writable: true });
  const outputs = { y: await context.createTensor({ ...matrix, readable: true }) };
  for (let i = 0; i < 50; i++) {
    context.dispatch(graph, { x }, outputs);
  }
  let isDone = false;
  const done = context.readTensor(outputs.y).then(() => {
    isDone = true;
  });
  assert.ok(describeGraph(graph).steps.length > 0);
  await new Promise(setImmediate);
  assert.equal(isDone, false);
  await done;
});

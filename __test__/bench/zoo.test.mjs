// The networks of the benchmark: their sizes, and what their quantized forms compute.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { ml } from 'webnn-node';
import { inspectModel, loadModel } from 'webnn-node/onnx';
import { elementCount } from 'webnn-node-text/elements';
import { CATALOG } from '../../bench/zoo/catalog.mjs';
import { encoder, wordsOf } from '../../bench/zoo/embedder.mjs';
import { Layers } from '../../bench/zoo/layers.mjs';
import { defined } from '../lib/types.mjs';
import { quantizeDynamically, quantizeStatically, rangedTensors } from '../../bench/zoo/quantized.mjs';

const bytesOf = (network) => Buffer.concat([...network.parts()]);

/** Nodes and floats of the networks, which results are compared over years by. */
const SIZES = {
  bilstm_tagger: [11, 4_319_377],
  efficientnet_b0: [239, 5_267_540],
  gpt2_decode: [503, 124_439_815],
  gpt2_prefill128: [480, 124_456_199],
  gru_denoise: [17, 88_007],
  minilm_l6: [214, 22_565_381],
  minilm_l6_b8: [214, 22_565_381],
  minilm_l6_fp16: [214, 22_565_381],
  mobilenet_v2: [100, 3_487_818],
  resnet50: [122, 25_530_472],
  text_detector: [224, 572_456],
  unet_block: [85, 4_801_348],
  vit_small: [380, 22_050_668],
  whisper_tiny_encoder: [145, 8_208_388],
  yolov8n: [233, 3_162_556],
};

for (const [name, [nodes, floats]] of Object.entries(SIZES)) {
  test(`${name} keeps its size`, () => {
    const network = CATALOG[name].network();
    assert.equal(network.nodes.length, nodes);
    const weights = [...network.weights.values()].filter(({ dataType }) => dataType !== 'int64');
    assert.equal(
      weights.reduce((sum, { tensor }) => sum + elementCount(/** @type {number[]} */ (tensor.shape)), 0),
      floats,
    );
  });
}

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

/** Convolutions, a sum and a product: what a classifier of pictures is made of. */
function classifier() {
  const n = new Layers('classifier');
  const x = n.clip6(n.conv(n.picture('x', 16), 8, 3));
  const sum = n.add(x, n.conv(x, 8, 1));
  n.output(n.gemm(n.pooled(sum), 10), 'y');
  return n;
}

/** A table, and products with weights and of activations. */
function reader() {
  const n = new Layers('reader');
  const ids = n.input('x', 'int64', [1, 8], ({ below }) => below(20));
  n.output(n.attention(n.gather(n.weight([20, 16], 1), ids), 2), 'y');
  return n;
}

async function run(network) {
  const model = await loadModel(bytesOf(network), { context });
  try {
    const { y } = await model.run(Object.fromEntries(Object.entries(network.feeds()).map(([name, { data }]) => [name, data])));
    return y.data;
  } finally {
    model.destroy();
  }
}

/** Difference of results as a part of their size. */
function distance(a, b) {
  const square = (values) => values.reduce((sum, value) => sum + value ** 2, 0);
  return Math.sqrt(square(a.map((value, i) => value - b[i])) / square(b));
}

test('a network is the same whenever it is written, and another with another seed', () => {
  assert.deepEqual(bytesOf(classifier()), bytesOf(classifier()));
  const weightOf = (seed) => {
    const n = new Layers(seed);
    return defined(n.weights.get(n.weight([101], 0.5, 3))).read();
  };
  assert.notDeepEqual(weightOf('one'), weightOf('other'));
  assert.equal(weightOf('one').length, 101);
});

test('weights have the deviation and the mean that are asked for, also in float16', () => {
  for (const types of [{}, { dataType: 'float16' }, { precision: 'float16' }]) {
    const n = new Layers('many', types);
    n.output(
      n.add(
        n.input('x', n.dataType, [1], () => 0),
        n.weight([100_001], 0.5, 3),
      ),
      'y',
    );
    assert.equal(inspectModel(bytesOf(n)).parameterBytes, 100_001 * (n.dataType === 'float16' ? 2 : 4));
  }
  const n = new Layers('many', { precision: 'float16' });
  const numbers = Array.from(defined(n.weights.get(n.weight([100_001], 0.5, 3))).read(), Number);
  const mean = numbers.reduce((a, b) => a + b) / numbers.length;
  const deviation = Math.sqrt(numbers.reduce((sum, number) => sum + (number - mean) ** 2, 0) / numbers.length);
  assert.ok(Math.abs(mean - 3) < 0.01, `mean ${mean}`);
  assert.ok(Math.abs(deviation - 0.5) < 0.01, `deviation ${deviation}`);
  // 10 bits behind the first one, for numbers of 2 to 4.
  assert.ok(numbers.every((number) => number < 2 || number > 4 || (number * 512) % 1 === 0));
});

for (const [name, network] of Object.entries({ classifier, reader })) {
  test(`${name}, quantized dynamically, computes nearly the same`, async () => {
    const quantized = quantizeDynamically(network());
    const integers = quantized.nodes.filter(({ type }) => /Integer$/.test(type)).length;
    assert.equal(integers, { classifier: 2, reader: 4 }[name]);
    const difference = distance(await run(quantized), await run(network()));
    assert.ok(difference > 0 && difference < 0.05, String(difference));
  });
}

test('classifier, quantized statically, computes nearly the same', async () => {
  const network = classifier();
  const tensors = rangedTensors(network);
  assert.deepEqual(
    tensors.map(({ name }) => name),
    ['x', 'conv_1', 'add_0', 'globalaveragepool_0', 'y'],
  );
  const quantized = quantizeStatically(network, new Map(tensors.map((tensor) => [tensor, [-8, 8]])));
  const { operators } = inspectModel(bytesOf(quantized));
  // Input, clipped values, the second convolution, the sum, the mean of channels, the same flat, and the output.
  assert.equal(operators.QuantizeLinear, 7);
  // The same, and weights and biases of three products.
  assert.equal(operators.DequantizeLinear, 13);
  const difference = distance(await run(quantized), await run(network));
  assert.ok(difference > 0 && difference < 0.1, String(difference));
});

test('the embedder takes texts of any number and length, and no word of its texts is another', async () => {
  assert.equal(new Set(wordsOf(30_000)).size, 30_000);
  const model = await loadModel(bytesOf(encoder()), { context });
  try {
    for (const shape of [
      [1, 5],
      [3, 9],
    ]) {
      const feed = { data: new BigInt64Array(shape[0] * shape[1]).fill(1n), shape };
      const { last_hidden_state: result } = await model.run({ input_ids: feed, attention_mask: feed, token_type_ids: feed });
      assert.deepEqual(result.shape, [...shape, 384]);
      assert.ok(result.data.every(Number.isFinite));
    }
  } finally {
    model.destroy();
  }
});

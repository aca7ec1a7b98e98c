import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import { describeDecoder, emptyCache, KEEP_LAST, mostLikely, nextCache, stepInputs } from 'webnn-node-text/decoder';
import { feedsOf } from 'webnn-node-text/elements';
import { ml } from '../../index.js';
import { loadModel } from '../../onnx.js';
import { greedyTokens, languageModel } from './language-model.mjs';
import { FLOAT, node, value, weight, writeModel } from './model-writer.mjs';

const VOCABULARY = 97;
const STYLE = { vocabulary: VOCABULARY, positions: true, next: (sum) => (sum * 5 + 3) % VOCABULARY };
const PROMPT = [5, 60, 2, 2, 31, 90, 14];

/** scores = relu(x) * w, for x of shape [batch, length, 8]. */
const product = () =>
  writeModel({
    inputs: [value('x', FLOAT, ['batch', 'length', 8])],
    outputs: [value('scores', FLOAT, ['batch', 'length', 5]), value('sum', FLOAT, [])],
    weights: [
      weight(
        'w',
        [8, 5],
        Float32Array.from({ length: 40 }, (_, i) => Math.sin(i)),
      ),
    ],
    nodes: [node('Relu', ['x'], ['hidden']), node('MatMul', ['hidden', 'w'], ['scores']), node('ReduceSum', ['x'], ['sum'], { keepdims: { i: 0 } })],
  });

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

/** The logits of a prompt and of the tokens behind it, step by step. */
async function logitsOf(model, count) {
  const decoder = describeDecoder(model);
  const steps = [];
  let [cache, past, next] = [feedsOf(emptyCache(decoder)), 0, PROMPT];
  while (steps.length < count) {
    const results = await model.run({ ...feedsOf(stepInputs(decoder, next, past)), ...cache });
    steps.push(results.logits);
    cache = nextCache(decoder, results);
    past += next.length;
    next = [mostLikely(results.logits.data.slice(-VOCABULARY))];
  }
  return steps;
}

describe('keepLast', () => {
  for (const half of [false, true]) {
    test(`gives the logits of the next token, for a prompt and tokens behind it, ${half ? 'float16' : 'float32'}`, async () => {
      const bytes = languageModel({ ...STYLE, half });
      const [whole, last] = await Promise.all([loadModel(bytes, { context }), loadModel(bytes, { context, keepLast: KEEP_LAST })]);
      const [expected, got] = await Promise.all([logitsOf(whole, 6), logitsOf(last, 6)]);
      expected.forEach(({ data, shape }, step) => {
        assert.deepEqual(shape, [1, step === 0 ? PROMPT.length : 1, VOCABULARY]);
        assert.deepEqual(got[step], { data: data.slice(-VOCABULARY), shape: [1, 1, VOCABULARY], dataType: half ? 'float16' : 'float32' });
      });
      if (!half)
        assert.deepEqual(
          got.map(({ data }) => mostLikely(data)),
          greedyTokens(STYLE, PROMPT, 6),
        );
      [whole, last].forEach((model) => model.destroy());
    });
  }

  test('computes no more than is kept, in batches too', async () => {
    const x = Float32Array.from({ length: 2 * 9 * 8 }, (_, i) => Math.cos(i));
    const feeds = { x: { data: x, shape: [2, 9, 8] } };
    const [whole, last] = await Promise.all([loadModel(product(), { context }), loadModel(product(), { context, keepLast: { scores: 2 } })]);
    assert.deepEqual(last.outputs[0].shape, ['batch', 'scores_dim_1', 5]);
    const [expected, { scores, sum }] = await Promise.all([whole.run(feeds), last.run(feeds)]);
    const rows = [0, 1].flatMap((batch) => [...expected.scores.data.slice((batch * 9 + 7) * 5, (batch + 1) * 9 * 5)]);
    assert.deepEqual([scores.shape, [...scores.data], sum], [[2, 2, 5], rows, expected.sum]);
    const { graph } = await last.describe({ x: [2, 9, 8] });
    assert.ok(graph);
    const products = graph.steps.filter(({ multiplyAdds }) => multiplyAdds > 0);
    assert.deepEqual(
      products.map(({ multiplyAdds }) => multiplyAdds),
      [2 * 2 * 8 * 5],
    );
    [whole, last].forEach((model) => model.destroy());
  });

  test('goes with fetches, compile() and outputs', async () => {
    const model = await loadModel(product(), { context, outputs: ['sum', 'scores'], keepLast: { scores: 3 } });
    const { outputs } = await model.compile({ x: [1, 12, 8] });
    assert.deepEqual(outputs.scores, { dataType: 'float32', shape: [1, 3, 5] });
    const tensor = await context.createTensor({ dataType: 'float32', shape: [1, 3, 5], readable: true });
    const feeds = { x: { data: new Float32Array(12 * 8), shape: [1, 12, 8] } };
    await model.run(feeds, { scores: tensor });
    assert.deepEqual(new Float32Array(await context.readTensor(tensor)), new Float32Array(15));
    const other = await context.createTensor({ dataType: 'float32', shape: [1, 12, 5] });
    await assert.rejects(model.run(feeds, { scores: other }), {
      name: 'TypeError',
      message: 'run: output "scores" needs float32 [1, 3, 5], the tensor is float32 [1, 12, 5]',
    });
    [tensor, other, model].forEach((resource) => resource.destroy());
  });

  test('refuses what it cannot keep', async () => {
    const refused = (keepLast, message, code) => assert.rejects(loadModel(product(), { context, keepLast }), { name: 'TypeError', code, message });
    await refused(null, 'loadModel: keepLast is null, expected an object of numbers by name', 'ERR_WEBNN_TYPE');
    await refused({ scores: '1' }, 'loadModel: keepLast["scores"] is "1", expected a number', 'ERR_WEBNN_TYPE');
    for (const count of [0, -1, 1.5, NaN, Infinity]) {
      await refused(
        { scores: count },
        `loadModel: keepLast["scores"] is ${count === Infinity ? 'inf' : count}, expected an integer of at least 1`,
        'ERR_WEBNN_SHAPE',
      );
    }
    await refused({ logits: 1 }, 'loadModel: keepLast names "logits", which is not an output: the model has "scores", "sum"', 'ERR_WEBNN_UNKNOWN_OUTPUT');
    await refused({ sum: 1 }, 'loadModel: keepLast names "sum", which has rank 0, expected at least 2', 'ERR_WEBNN_SHAPE');
  });
});

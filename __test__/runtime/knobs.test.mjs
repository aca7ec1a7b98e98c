import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resultOf } from './helpers.mjs';

/** A program that prints how createContext ends under the environment. */
const CREATE = `
const error = await helpers.ml.createContext().then(() => null, ({ name, message }) => ({ name, message }));
const other = await helpers.ml.createContext({ numThreads: 1 }).then(() => null, ({ name }) => name);
console.log(JSON.stringify({ error, other, isDOMException: error !== null }));`;

for (const [variable, ...values] of [
  ['WEBNN_NUM_THREADS', '0', '-1', '1025', 'many', '2.5', '99999999999999999999'],
  ['WEBNN_ISA', 'mmx', 'AVX 2', '0'],
  ['WEBNN_DISABLE_PASSES', 'everything', 'fold,nonsense', 'fold;views'],
  ['WEBNN_FILL_ARENA', '2', 'yes', 'NaN'],
  ['WEBNN_KEPT_SIZES', '0', '1025', 'all'],
]) {
  for (const value of values) {
    test(`${variable}=${value} is refused with its name, its value and what was expected`, async () => {
      const { error, other } = await resultOf(CREATE, { env: { [variable]: value } });
      assert.equal(error?.name, 'NotSupportedError');
      for (const part of [variable, JSON.stringify(value), 'expected']) {
        assert.ok(error.message.includes(part), `${error.message} lacks ${part}`);
      }
      // An explicit number of threads replaces the variable; the debug variables concern every context.
      assert.equal(other, variable === 'WEBNN_NUM_THREADS' ? null : 'NotSupportedError');
    });
  }
  test(`an empty ${variable} is the same as none`, async () => {
    assert.equal((await resultOf(CREATE, { env: { [variable]: '' } })).error, null);
  });
}

/** A program that prints the bits of what a graph with something for every pass computes. */
const COMPUTE = `
import { createHash } from 'node:crypto';
const context = await helpers.ml.createContext();
const builder = new helpers.MLGraphBuilder(context);
const x = builder.input('x', helpers.operand(7, 1031));
const table = builder.constant(helpers.operand(1031), Float32Array.from({ length: 1031 }, (_, i) => i / 1031 - 0.5));
const folded = builder.mul(builder.add(table, builder.constant('float32', 1)), table);
const same = builder.identity(builder.reshape(builder.cast(x, 'float32'), [7217]));
const chain = builder.tanh(builder.div(builder.sub(builder.abs(x), folded), builder.constant('float32', 3)));
const y = builder.relu(builder.mul(chain, builder.sigmoid(chain)));
const sums = builder.reduceSum(builder.exp(y), { axes: [1], keepDimensions: true });
const relative = builder.reshape(builder.div(y, sums), [1031, 7]);
const graph = await builder.build({ same: builder.neg(same), y, sums, relative });
const input = await context.createTensor(helpers.floats(7, 1031));
context.writeTensor(input, Float32Array.from({ length: 7217 }, (_, i) => ((i * 2654435761) % 2000) / 250 - 4));
const outputs = {};
for (const [name, shape] of Object.entries({ same: [7217], y: [7, 1031], sums: [7, 1], relative: [1031, 7] })) {
  outputs[name] = await context.createTensor(helpers.floats(...shape));
}
const digests = {};
for (let i = 0; i < 2; i++) {
  context.dispatch(graph, { x: input }, outputs);
  for (const [name, tensor] of Object.entries(outputs)) {
    const values = await helpers.read(context, tensor);
    if (!values.every(Number.isFinite)) throw new Error(name + ' has a value that is not finite');
    digests[name + i] = createHash('sha256').update(values).digest('hex');
    digests['rough ' + name] = [...values.slice(0, 40)];
  }
}
console.log(JSON.stringify(digests));`;

const plain = resultOf(COMPUTE);

for (const [variable, value] of [
  ['WEBNN_FILL_ARENA', '1'],
  ['WEBNN_FILL_ARENA', '0'],
  ['WEBNN_DISABLE_PASSES', 'all'],
  ['WEBNN_DISABLE_PASSES', 'fold'],
  ['WEBNN_DISABLE_PASSES', 'simplify'],
  ['WEBNN_DISABLE_PASSES', 'epilogues, chains'],
  ['WEBNN_DISABLE_PASSES', 'views'],
  ['WEBNN_KEPT_SIZES', '1'],
  ['WEBNN_NUM_THREADS', '1'],
  ['WEBNN_NUM_THREADS', '2'],
  ['WEBNN_NUM_THREADS', '7'],
]) {
  test(`${variable}=${value} changes no bit of a result`, async () => {
    assert.deepEqual(await resultOf(COMPUTE, { env: { [variable]: value } }), await plain);
  });
}

test('WEBNN_ISA=portable computes the same but for rounding', async () => {
  const [expected, result] = await Promise.all([plain, resultOf(COMPUTE, { env: { WEBNN_ISA: 'portable' } })]);
  for (const name of Object.keys(expected).filter((name) => name.startsWith('rough'))) {
    expected[name].forEach((value, i) => {
      const distance = Math.abs(result[name][i] - value);
      assert.ok(distance <= 1e-5 * Math.max(1, Math.abs(value)), `${name}[${i}] is ${result[name][i]}, not ${value}`);
    });
  }
});

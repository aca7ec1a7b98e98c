import assert from 'node:assert/strict';
import { test } from 'node:test';
import { generator } from '../lib/random.mjs';
import { MLGraphBuilder, ml, resultOf } from '../runtime/helpers.mjs';
import { SHAPES, Values, callRandomly, newPool, runRandomGraph } from './random.mjs';
import { checkException, operators } from './support.mjs';

/** Calls of each operator with random arguments. */
const CALLS = 60;

/** Graphs of random operators that are compiled and run. */
const GRAPHS = 300;

test('operators with random arguments throw what the API throws, or give an operand', async () => {
  const context = await ml.createContext();
  let accepted = 0;
  for (const row of operators) {
    for (let call = 0; call < CALLS; call++) {
      const seed = row.name.length * 7919 + row.name.charCodeAt(row.name.length - 1) * 104729 + call;
      const random = generator(seed);
      const { builder, pool } = newPool(context, random, SHAPES);
      accepted += callRandomly(builder, row, new Values(random, pool, call % 3 === 0 ? 0.3 : 0.03), `${row.name}, seed ${seed}`).length;
    }
  }
  // The fuzzer would be worth nothing if everything was refused.
  assert.ok(accepted > CALLS * 20, `${accepted} operands`);
});

test('every other method with random arguments', async () => {
  const random = generator(4711);
  const context = await ml.createContext();
  const tensor = await context.createTensor({ dataType: 'float32', shape: [2], readable: true, writable: true });
  const { builder, pool } = newPool(context, random, SHAPES);
  const graph = await builder.build({ y: builder.neg(builder.input('x', { dataType: 'float32', shape: [2] })) });
  const values = new Values(random, [...pool, tensor, graph, context, builder, new Float32Array(2), new ArrayBuffer(8)], 0.5);
  const descriptor = () => random.pick([values.of('garbage'), { dataType: values.of('MLOperandDataType'), shape: values.of('sequence<unsigned long>') }]);
  /** @type {[any, string, number][]} */
  const targets = [
    [ml, 'createContext', 2],
    ...['createTensor', 'createConstantTensor', 'readTensor', 'writeTensor', 'dispatch'].map(
      (name) => /** @type {[any, string, number]} */ ([context, name, 3]),
    ),
    ...['input', 'constant', 'build'].map((name) => /** @type {[any, string, number]} */ ([new MLGraphBuilder(context), name, 2])),
  ];
  for (const [target, name, count] of targets) {
    for (let i = 0; i < 300; i++) {
      const what = `${name}, call ${i}`;
      const args = Array.from({ length: random.below(count + 1) }, () => (random.chance(0.3) ? descriptor() : values.of('MLOperand')));
      const receiver = random.chance(0.9) ? target : values.of('MLOperand');
      let result;
      try {
        result = Reflect.apply(target[name], receiver, args);
      } catch (error) {
        checkException(error, what);
        continue;
      }
      if (result instanceof Promise) {
        await result.then(
          (value) => value?.destroy?.(),
          (error) => checkException(error, what),
        );
      }
    }
  }
});

test('random graphs compile and run', async () => {
  const context = await ml.createContext({ numThreads: 2 });
  for (let seed = 1; seed <= GRAPHS; seed++) {
    const { descriptors, results } = await runRandomGraph(context, seed);
    assert.deepEqual(Object.keys(results), Object.keys(descriptors));
  }
});

/** A program that prints a digest of the results of each random graph. NaN is the same whatever its bits. */
const DIGESTS = `
import { createHash } from 'node:crypto';
const { runRandomGraph } = await import(${JSON.stringify(new URL('random.mjs', import.meta.url).href)});
const context = await helpers.ml.createContext();
const plain = {
  float32: (bytes) => new Float32Array(bytes).map((value) => (Number.isNaN(value) ? NaN : value)),
  float16: (bytes) => new Uint16Array(bytes).map((bits) => ((bits & 0x7fff) > 0x7c00 ? 0x7e00 : bits)),
};
const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');
const digests = {};
for (let seed = 1; seed <= ${GRAPHS}; seed++) {
  const { descriptors, results } = await runRandomGraph(context, seed);
  for (const [name, bytes] of Object.entries(results)) {
    const values = plain[descriptors[name].dataType]?.(bytes) ?? bytes;
    digests['graph ' + seed + ', ' + name] = hash(new Uint8Array(values.buffer ?? values));
  }
}
console.log(JSON.stringify(digests));`;

const expected = resultOf(DIGESTS, { env: { WEBNN_NUM_THREADS: '2' } });

for (const env of /** @type {Record<string, string>[]} */ ([
  { WEBNN_FILL_ARENA: '1' },
  { WEBNN_DISABLE_PASSES: 'all' },
  { WEBNN_DISABLE_PASSES: 'views', WEBNN_FILL_ARENA: '1' },
  { WEBNN_DISABLE_PASSES: 'epilogues,chains' },
  { WEBNN_NUM_THREADS: '1' },
  { WEBNN_NUM_THREADS: '7' },
])) {
  test(`random graphs give the same with ${JSON.stringify(env)}`, async () => {
    assert.deepEqual(await resultOf(DIGESTS, { env: { WEBNN_NUM_THREADS: '2', ...env } }), await expected);
  });
}

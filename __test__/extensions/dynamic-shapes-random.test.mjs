/** Random graphs with named dimensions give the bits of graphs that are built with the sizes. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { generator } from '../lib/random.mjs';
import { ml } from '../runtime/helpers.mjs';
import { checkNames, contents, follow, outputsOf, randomRecipe, results } from './named-graphs.mjs';
import { defined } from '../lib/types.mjs';

const SEEDS = 120;

/** Other sizes for the names. Most graphs are not possible with them. */
const otherSizes = (random, sizes) => Object.fromEntries(Object.entries(sizes).map(([name, size]) => [name, random.chance(0.5) ? size : 1 + random.below(6)]));

test('random graphs with named dimensions', { timeout: 300_000 }, async () => {
  const options = { accelerated: false, numThreads: 1 };
  const plain = await ml.createContext(options);
  const any = await ml.createContext({ ...options, extensions: ['dynamic-shapes'] });
  // Resizes the plan of one set of sizes for the next one.
  process.env.WEBNN_KEPT_SIZES = '1';
  const one = await ml.createContext({ ...options, extensions: ['dynamic-shapes'] });
  delete process.env.WEBNN_KEPT_SIZES;
  let [equal, refused] = [0, 0];
  for (let seed = 1; seed <= SEEDS; seed++) {
    const random = generator(seed * 2654435761);
    const dynamic = seed % 2 === 0 ? any : one;
    const { recipe, sizes } = randomRecipe(plain, random);
    if (recipe.calls.length === 0) {
      continue;
    }
    const named = follow(dynamic, recipe, {});
    const places = Array.from({ length: 1 + random.below(5) }, () => random.below(named.computed.length));
    const graph = await named.builder.build(outputsOf(named.computed, places));
    for (let turn = 0; turn < 6; turn++) {
      const what = `graph ${seed}, turn ${turn}`;
      const used = turn % 3 === 0 ? sizes : otherSizes(random, sizes);
      const { descriptors, bytes } = contents(random, recipe, used);
      // Inputs that no output depends on are not inputs of the graph.
      const { message } = defined(attempt(() => graph.computeShapes({ none: [] })).error);
      const needed = [...message.replace(/^.*unknown; the graph has/, '').matchAll(/"([^"]*)"/g)].map(([, name]) => name);
      const inputs = Object.fromEntries(needed.map((name) => [name, descriptors[name]]));
      const shapes = Object.fromEntries(Object.entries(inputs).map(([name, { shape }]) => [name, shape]));
      let fixed;
      try {
        fixed = follow(plain, recipe, used);
      } catch (caught) {
        const error = /** @type {Error & { isRefused?: boolean }} */ (caught);
        assert.ok(error.isRefused, `${what}: ${error.stack}`);
        // What is refused may be something that the outputs do not need.
        const outcome = attempt(() => graph.computeShapes(shapes));
        if (outcome.error !== undefined) {
          assert.ok(outcome.error instanceof TypeError, `${what}: ${outcome.error.stack}`);
          refused++;
        }
        continue;
      }
      named.operands.forEach(({ shape }, at) => checkNames(shape, fixed.operands[at].shape, used, what));
      const outputs = outputsOf(fixed.computed, places);
      const found = graph.computeShapes(shapes);
      assert.deepEqual(found, Object.fromEntries(Object.entries(outputs).map(([name, { shape }]) => [name, [...shape]])), what);
      const ports = {
        inputs,
        outputs: Object.fromEntries(Object.entries(outputs).map(([name, { dataType, shape }]) => [name, { dataType, shape }])),
      };
      const expected = await results(plain, await fixed.builder.build(outputs), ports, bytes);
      const actual = await results(dynamic, graph, ports, bytes);
      for (const [name, wanted] of Object.entries(expected)) {
        assert.deepEqual(new Uint8Array(actual[name]), new Uint8Array(wanted), `${what}, output ${name}`);
      }
      equal++;
    }
    graph.destroy();
  }
  assert.ok(equal > SEEDS * 2 && refused > SEEDS / 8, `${equal} equal, ${refused} refused`);
});

function attempt(work) {
  try {
    return { value: work() };
  } catch (error) {
    return { error: /** @type {Error} */ (error) };
  }
}

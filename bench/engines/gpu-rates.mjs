// Rates of this package's single-operator graphs on a GPU: a copy of a large tensor, and matrix products. An engine of
// the benchmark that takes turns with the models.

import { arrayFromNumbers, elementCount } from 'webnn-node-text/elements';
import { ml, MLGraphBuilder } from 'webnn-node';

/** Returns the number of operations to multiply two matrices of `size` rows and columns. */
const products = (/** @type {number} */ size) => 2 * size ** 3;

/**
 * @typedef {object} Wanted
 * @property {number} copyBytes
 * @property {number[]} sizes of matrices
 * @property {('float32' | 'float16')[]} kinds
 */

/**
 * @typedef {import('webnn-node').MLOperand} MLOperand
 * @typedef {import('../../packages/cli/lib/bench/types.mjs').RateGraph & { inputs: string[], descriptor: { dataType: 'float32' | 'float16', shape: number[] },
 *   apply: (builder: MLGraphBuilder, ...operands: MLOperand[]) => MLOperand }} Recipe of a graph whose inputs all have one descriptor
 */

/**
 * Returns the graphs. The amount that a dispatch moves counts bytes read and written.
 *
 * @param {Wanted} wanted
 * @returns {Recipe[]}
 */
function graphsOf({ copyBytes, sizes, kinds }) {
  /** @type {(kind: 'float32' | 'float16', size: number) => Recipe} */
  const product = (kind, size) => ({
    name: `product ${kind} ${size}`,
    descriptor: { dataType: kind, shape: [size, size] },
    inputs: ['a', 'b'],
    apply: (builder, a, b) => builder.matmul(a, b),
    amount: products(size),
    unit: 'FLOP/s',
  });
  /** @type {Recipe} */
  const copy = {
    name: 'copy',
    descriptor: { dataType: 'float32', shape: [copyBytes / 4] },
    inputs: ['a'],
    apply: (builder, a) => builder.neg(a),
    amount: 2 * copyBytes,
    unit: 'B/s',
  };
  return [copy, ...kinds.flatMap((kind) => sizes.map((size) => product(kind, size)))];
}

/**
 * Returns numbers from -1 to 1: chips draw less power, and are faster, on zeros.
 *
 * @param {Recipe['descriptor']} descriptor
 */
function numbers({ dataType, shape }) {
  return arrayFromNumbers(
    dataType,
    Float32Array.from({ length: elementCount(shape) }, () => Math.random() * 2 - 1),
  );
}

/**
 * @param {import('webnn-node').MLContext} context
 * @param {Recipe} graph
 */
async function compile(context, { descriptor, inputs: names, apply, ...rest }) {
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ y: apply(builder, ...names.map((name) => builder.input(name, descriptor))) });
  /** @type {Record<string, import('webnn-node').MLTensor>} */
  const inputs = {};
  for (const name of names) {
    inputs[name] = await context.createTensor({ ...descriptor, writable: true });
    context.writeTensor(inputs[name], numbers(descriptor));
  }
  const outputs = { y: await context.createTensor(descriptor) };
  const mark = await context.createTensor({ dataType: 'float32', shape: [], readable: true });
  return { ...rest, graph, inputs, outputs, mark };
}

/**
 * An engine without a model.
 *
 * @param {import('../../packages/cli/lib/bench/types.mjs').LoadParameters} parameters `model` is a `Wanted` as JSON
 * @returns {Promise<Omit<import('../../packages/cli/lib/bench/types.mjs').LoadedEngine, 'run' | 'outputs' | 'operators' | 'close'>>}
 */
export async function load({ model }) {
  const start = performance.now();
  const context = await ml.createContext({ powerPreference: 'high-performance' });
  /** @type {Awaited<ReturnType<typeof compile>>[]} */
  const compiled = [];
  for (const graph of graphsOf(JSON.parse(model))) {
    compiled.push(await compile(context, graph));
  }
  return {
    version: '',
    loadMs: performance.now() - start,
    commands: {
      names: async () => compiled.map(({ name, amount, unit }) => ({ name, amount, unit })),

      async burst({ name, count }) {
        const { graph, inputs, outputs, mark } = /** @type {typeof compiled[number]} */ (compiled.find((one) => one.name === name));
        const begin = performance.now();
        for (let i = 0; i < count; i++) {
          context.dispatch(graph, inputs, outputs);
        }
        // Reads come in order: this small one is done when everything before it is.
        await context.readTensor(mark);
        return { ms: performance.now() - begin };
      },
    },
  };
}

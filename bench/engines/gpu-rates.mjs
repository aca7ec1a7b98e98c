// What our own graphs of one operator reach on a GPU: a copy of a large tensor and products of matrices. Part of the
// benchmark as an engine, so that it takes turns with the models.

import { arrayFromNumbers, elementCount } from '../../cli/elements.mjs';
import { ml, MLGraphBuilder } from '../../index.js';

/** Operations that two matrices of `size` rows and columns need. */
const products = (size) => 2 * size ** 3;

/** The graphs: their names, and what one dispatch moves (bytes read and written) or computes. */
function graphsOf({ copyBytes, sizes, kinds }) {
  const product = (kind, size) => ({
    name: `product ${kind} ${size}`,
    descriptor: { dataType: kind, shape: [size, size] },
    inputs: ['a', 'b'],
    apply: (builder, a, b) => builder.matmul(a, b),
    operations: products(size),
  });
  const copy = {
    name: 'copy',
    descriptor: { dataType: 'float32', shape: [copyBytes / 4] },
    inputs: ['a'],
    apply: (builder, a) => builder.neg(a),
    bytes: 2 * copyBytes,
  };
  return [copy, ...kinds.flatMap((kind) => sizes.map((size) => product(kind, size)))];
}

/** Numbers from -1 to 1: chips draw less power, and are faster, on zeros. */
function numbers({ dataType, shape }) {
  return arrayFromNumbers(dataType, Float32Array.from({ length: elementCount(shape) }, () => Math.random() * 2 - 1));
}

async function compile(context, { descriptor, inputs: names, apply, ...rest }) {
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ y: apply(builder, ...names.map((name) => builder.input(name, descriptor))) });
  const inputs = {};
  for (const name of names) {
    inputs[name] = await context.createTensor({ ...descriptor, writable: true });
    context.writeTensor(inputs[name], numbers(descriptor));
  }
  const outputs = { y: await context.createTensor(descriptor) };
  const mark = await context.createTensor({ dataType: 'float32', shape: [], readable: true });
  return { ...rest, graph, inputs, outputs, mark };
}

/** See `LoadedEngine` of serve.mjs; `model` says which graphs, as JSON. */
export async function load({ model }) {
  const start = performance.now();
  const context = await ml.createContext();
  const compiled = [];
  for (const graph of graphsOf(JSON.parse(model))) {
    compiled.push(await compile(context, graph));
  }
  return {
    version: '',
    loadMs: performance.now() - start,
    commands: {
      names: async () => compiled.map(({ name, bytes, operations }) => ({ name, bytes, operations })),

      /** Milliseconds of `count` dispatches of a graph, of which the end is waited for. */
      async burst({ name, count }) {
        const { graph, inputs, outputs, mark } = compiled.find((one) => one.name === name);
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

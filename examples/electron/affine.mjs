import { ml, MLGraphBuilder } from 'webnn-node';

const SIZE = 4;

/**
 * Compiles `y = 2 * x + 1` on four numbers, which stands for a model here.
 * @returns {Promise<(numbers: Float32Array) => Promise<Float32Array>>} runs it
 */
export async function createAffine() {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  /** @type {import('webnn-node').MLOperandDescriptor} */
  const descriptor = { dataType: 'float32', shape: [SIZE] };
  const x = builder.input('x', descriptor);
  const y = builder.linear(x, { alpha: 2, beta: 1 });
  const graph = await builder.build({ y });
  const input = await context.createTensor({ ...descriptor, writable: true });
  const output = await context.createTensor({ ...descriptor, readable: true });
  return async (numbers) => {
    context.writeTensor(input, numbers);
    context.dispatch(graph, { x: input }, { y: output });
    return new Float32Array(await context.readTensor(output));
  };
}

// The network of train.py, built call by call: the same lines run in a browser that has WebNN.
import { MLGraphBuilder } from 'webnn-node';
import { readSafetensors } from './safetensors.mjs';

/** Pixels per side, and the value of full ink in the training data. */
export const SIDE = 8;
export const FULL_INK = 16;
export const CLASSES = 10;

const WEIGHTS = new URL('weights.safetensors', import.meta.url);

/** The trained parameters by name, see train.py. */
export async function loadWeights() {
  return (await readSafetensors(WEIGHTS)).tensors;
}

/**
 * The probabilities float32 [batch, 10] of the digits 0 to 9.
 * @param {MLGraphBuilder} builder
 * @param {import('webnn-node').MLOperand} pixels float32 [batch, 1, 8, 8], 0 (paper) to 16 (ink)
 * @param {Map<string, import('./tensor-data.mjs').TensorData>} weights
 */
export function digitsNetwork(builder, pixels, weights) {
  const parameter = (/** @type {string} */ name) => {
    const { descriptor, bytes } = /** @type {import('./tensor-data.mjs').TensorData} */ (weights.get(name));
    return builder.constant(descriptor, bytes);
  };
  const convRelu = (/** @type {import('webnn-node').MLOperand} */ x, /** @type {string} */ name) => {
    const options = { padding: [1, 1, 1, 1], bias: parameter(`${name}.bias`), label: name };
    return builder.relu(builder.conv2d(x, parameter(`${name}.weight`), options));
  };
  const dense = (/** @type {import('webnn-node').MLOperand} */ x, /** @type {string} */ name) =>
    builder.gemm(x, parameter(`${name}.weight`), { c: parameter(`${name}.bias`), label: name });

  const [batch] = pixels.shape;
  let x = builder.mul(pixels, builder.constant('float32', 1 / FULL_INK));
  x = convRelu(x, 'conv1');
  x = convRelu(x, 'conv2');
  x = builder.maxPool2d(x, { windowDimensions: [2, 2], strides: [2, 2] });
  x = builder.reshape(x, [batch, 32 * 4 * 4]);
  x = builder.relu(dense(x, 'dense1'));
  return builder.softmax(dense(x, 'dense2'), 1);
}

/** A compiled network for a fixed number of pictures at a time, with its tensors. */
export class DigitReader {
  #context;
  #graph;
  #pixels;
  #probabilities;

  /**
   * @param {import('webnn-node').MLContext} context
   * @param {import('webnn-node').MLGraph} graph
   * @param {import('webnn-node').MLTensor} pixels
   * @param {import('webnn-node').MLTensor} probabilities
   */
  constructor(context, graph, pixels, probabilities) {
    this.#context = context;
    this.#graph = graph;
    this.#pixels = pixels;
    this.#probabilities = probabilities;
  }

  /**
   * Compiles the network.
   * @param {import('webnn-node').MLContext} context
   * @param {Awaited<ReturnType<typeof loadWeights>>} weights
   * @param {number} batch pictures per call of `read`
   */
  static async create(context, weights, batch) {
    const builder = new MLGraphBuilder(context);
    /** @type {{ dataType: 'float32', shape: number[] }} */
    const input = { dataType: 'float32', shape: [batch, 1, SIDE, SIDE] };
    /** @type {{ dataType: 'float32', shape: number[] }} */
    const output = { dataType: 'float32', shape: [batch, CLASSES] };
    const probabilities = digitsNetwork(builder, builder.input('pixels', input), weights);
    return new DigitReader(
      context,
      await builder.build({ probabilities }),
      await context.createTensor({ ...input, writable: true }),
      await context.createTensor({ ...output, readable: true }),
    );
  }

  /**
   * Reads as many pictures as the reader was created for.
   * @param {Float32Array} pixels batch * 64 values, 0 (paper) to 16 (ink)
   * @returns {Promise<Float32Array>} batch * 10 probabilities
   */
  async read(pixels) {
    this.#context.writeTensor(this.#pixels, pixels);
    this.#context.dispatch(this.#graph, { pixels: this.#pixels }, { probabilities: this.#probabilities });
    return new Float32Array(await this.#context.readTensor(this.#probabilities));
  }
}

/**
 * The index of the largest value.
 * @param {Float32Array} values
 */
export function argMax(values) {
  return values.indexOf(Math.max(...values));
}

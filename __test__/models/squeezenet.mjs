// SqueezeNet 1.0 (https://arxiv.org/abs/1602.07360), built call by call.

/**
 * The input of the network: float32 [1, 3, 224, 224], each value in -1..1.
 * @type {{ dataType: 'float32', shape: number[] }}
 */
export const INPUT = { dataType: 'float32', shape: [1, 3, 224, 224] };

/**
 * The output of the network: float32 [1, 1001], the probabilities of ImageNet's thousand classes after one for the background.
 * @type {{ dataType: 'float32', shape: number[] }}
 */
export const OUTPUT = { dataType: 'float32', shape: [1, 1001] };

/**
 * The probabilities of the classes, see `OUTPUT`.
 * @param {import('webnn-node').MLGraphBuilder} builder
 * @param {import('webnn-node').MLOperand} image see `INPUT`
 * @param {Map<string, import('../../examples/digits/tensor-data.mjs').TensorData>} weights kernels OIHW and biases
 */
export function squeezenet(builder, image, weights) {
  const parameter = (name) => {
    const { descriptor, bytes } = /** @type {import('../../examples/digits/tensor-data.mjs').TensorData} */ (weights.get(name));
    return builder.constant(descriptor, bytes);
  };
  const convRelu = (x, name, options = {}) => {
    const filter = parameter(`${name}.weight`);
    const bias = parameter(`${name}.bias`);
    return builder.relu(builder.conv2d(x, filter, { ...options, bias, label: name }));
  };
  const fire = (x, name) => {
    const squeezed = convRelu(x, `${name}_squeeze`);
    const narrow = convRelu(squeezed, `${name}_e1x1`);
    const wide = convRelu(squeezed, `${name}_e3x3`, { padding: [1, 1, 1, 1] });
    return builder.concat([narrow, wide], 1, { label: name });
  };
  const pool = (x) => builder.maxPool2d(x, { windowDimensions: [3, 3], strides: [2, 2] });

  // 'same-upper' of a 7x7 window at stride 2 on 224 pixels: five in all, the odd one at the end.
  let x = convRelu(image, 'conv1', { padding: [2, 3, 2, 3], strides: [2, 2] });
  x = pool(x);
  for (const name of ['fire2', 'fire3', 'fire4']) x = fire(x, name);
  x = pool(x);
  for (const name of ['fire5', 'fire6', 'fire7', 'fire8']) x = fire(x, name);
  x = pool(x);
  x = fire(x, 'fire9');
  x = convRelu(x, 'conv10');
  x = builder.averagePool2d(x);
  return builder.softmax(builder.reshape(x, OUTPUT.shape), 1);
}

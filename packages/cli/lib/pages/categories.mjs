// Kinds of operators, by what limits their speed. The pages use one color per kind.

/** The kinds in legend order. The key is also part of a CSS class, `kind-<key>`. */
export const CATEGORIES = {
  multiply: 'Products, convolutions, recurrent',
  reduce: 'Reductions, pooling, norms',
  elementwise: 'Element-wise',
  quantize: 'Quantization',
  move: 'Data movement',
};

const MEMBERS = {
  multiply: ['conv2d', 'convTranspose2d', 'gemm', 'matmul', 'gru', 'gruCell', 'lstm', 'lstmCell'],
  reduce: [
    'argMax',
    'argMin',
    'averagePool2d',
    'batchNormalization',
    'cumulativeSum',
    'instanceNormalization',
    'l2Pool2d',
    'layerNormalization',
    'maxPool2d',
    'softmax',
  ],
  quantize: ['dequantizeLinear', 'quantizeLinear'],
  move: [
    'concat',
    'copy',
    'expand',
    'gather',
    'gatherElements',
    'gatherND',
    'identity',
    'pad',
    'resample2d',
    'reshape',
    'reverse',
    'scatterElements',
    'scatterND',
    'slice',
    'split',
    'tile',
    'transpose',
    'triangular',
  ],
};

const CATEGORY_OF = new Map(Object.entries(MEMBERS).flatMap(([category, operators]) => operators.map((operator) => [operator, category])));

/**
 * Returns the kind of an operator: a key of {@link CATEGORIES}. Operators in no other kind are element-wise.
 * @param {string} operator
 */
export function categoryOf(operator) {
  return CATEGORY_OF.get(operator) ?? (operator.startsWith('reduce') ? 'reduce' : 'elementwise');
}

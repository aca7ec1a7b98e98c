/**
 * Families of operators, for their pages: members, and how CPU and GPU compute them. Every operator belongs to exactly
 * one family.
 */

const FUSED = {
  cpu: 'A chain of element-wise operators is one step: blocks of elements stay in the first-level cache from the first operator to the last. Behind a product or a convolution, the chain is part of its kernel.',
  gpu: 'A chain of element-wise operators is one kernel, and behind a product or a convolution it is part of the kernel of that.',
};

const COPIES = {
  cpu: 'A result whose elements already lie in order, in memory that nobody else changes, is a view and takes no time. Otherwise it is a strided copy.',
  gpu: 'As on the CPU: a view where the memory plan allows one, a copy otherwise.',
};

const RECURRENT = {
  cpu: 'The product of all time steps with the input weights is computed first, as one matrix product. Then the steps run one after the other, in blocks of units whose weights are packed. Everything is computed in float32.',
  gpu: 'One workgroup computes all time steps of one sequence in one direction. Few sequences leave most of a large GPU idle: compare with the CPU.',
};

const INDICES = 'Negative indices count from the end, and indices out of range are clamped.';

/** @type {{ title: string, members: string[], cpu: string, gpu: string, both?: string }[]} */
export const families = [
  {
    title: 'Arithmetic',
    members: ['add', 'sub', 'mul', 'div', 'max', 'min', 'pow'],
    ...FUSED,
    both: 'Integers wrap around; a division by zero is 0.',
  },
  {
    title: 'Comparison and logic',
    members: [
      'equal',
      'notEqual',
      'greater',
      'greaterOrEqual',
      'lesser',
      'lesserOrEqual',
      'logicalNot',
      'logicalAnd',
      'logicalOr',
      'logicalXor',
      'isNaN',
      'isInfinite',
      'where',
    ],
    ...FUSED,
  },
  {
    title: 'Mathematical functions',
    members: ['abs', 'ceil', 'cos', 'erf', 'exp', 'floor', 'identity', 'log', 'neg', 'reciprocal', 'roundEven', 'sign', 'sin', 'sqrt', 'tan'],
    ...FUSED,
  },
  {
    title: 'Activations',
    members: ['clamp', 'elu', 'gelu', 'hardSigmoid', 'hardSwish', 'leakyRelu', 'linear', 'prelu', 'relu', 'sigmoid', 'softplus', 'softsign', 'tanh'],
    ...FUSED,
  },
  {
    title: 'Conversion and quantization',
    members: ['cast', 'dequantizeLinear', 'quantizeLinear'],
    cpu: 'Element-wise, and part of such chains. A product or convolution between `dequantizeLinear` and `quantizeLinear` is computed on integers. Constant weights of 4 and 8 bits stay packed in products.',
    gpu: 'Element-wise, and part of such chains. Products of quantized tensors are computed on floats.',
    both: 'A cast to an integer type takes the nearest number of the type where a float is out of range, and 0 for NaN.',
  },
  {
    title: 'Convolutions',
    members: ['conv2d', 'convTranspose2d'],
    cpu: "Networks of convolutions are computed with channels last, whatever the layout is, and constant filters are packed by `build()`. `conv2d` uses Winograd's algorithm for 3x3 filters with stride 1 and at least 32 channels; depthwise convolutions have kernels of their own. `convTranspose2d` computes no products with zeros between elements.",
    gpu: 'A large `conv2d` is a matrix product of filters and pieces of the image, which are read in place. Small ones and `convTranspose2d` compute each element on its own.',
  },
  {
    title: 'Matrix products',
    members: ['gemm', 'matmul'],
    cpu: 'A constant second operand is packed by `build()`. The order of additions depends on the shapes alone: results have the same bits for any number of threads.',
    gpu: 'The kernel is chosen by shape: tiles in workgroup memory, or slices of the terms where there are few rows. float16 products use the matrix units of the device where it has them. Sums are in float32.',
  },
  {
    title: 'Normalization',
    members: ['batchNormalization', 'instanceNormalization', 'layerNormalization', 'softmax'],
    cpu: '`softmax` subtracts the maximum first: nothing overflows. The others take means in float64. `batchNormalization` with constant operands becomes part of a convolution in front of it.',
    gpu: 'A workgroup computes a row as a whole. Where few long rows would leave the device idle, sums over rows are kernels of their own.',
  },
  {
    title: 'Pooling and resampling',
    members: ['averagePool2d', 'l2Pool2d', 'maxPool2d', 'resample2d'],
    cpu: 'Sums of windows are kept in float64. Of a window wholly in the padding, average and L2 are 0 and the maximum is the lowest value of the type.',
    gpu: 'Each element of the result is computed on its own. A pooling whose only window is the whole image is a reduction.',
  },
  {
    title: 'Reductions',
    members: [
      'argMax',
      'argMin',
      'cumulativeSum',
      'reduceL1',
      'reduceL2',
      'reduceLogSum',
      'reduceLogSumExp',
      'reduceMax',
      'reduceMean',
      'reduceMin',
      'reduceProduct',
      'reduceSum',
      'reduceSumSquare',
    ],
    cpu: 'Sums and products of floats are kept in float64, at least from block to block, and rounded once. The order of additions depends on the shapes alone.',
    gpu: 'Sums of floats have twice the digits of float32. Few long rows are cut into parts, which a second kernel combines.',
    both: '`argMin` and `argMax` give the first of equal elements.',
  },
  {
    title: 'Recurrent networks',
    members: ['gru', 'gruCell', 'lstm', 'lstmCell'],
    ...RECURRENT,
  },
  {
    title: 'Shapes and copies',
    members: ['concat', 'expand', 'pad', 'reshape', 'reverse', 'slice', 'split', 'tile', 'transpose', 'triangular'],
    ...COPIES,
  },
  {
    title: 'Gather and scatter',
    members: ['gather', 'gatherElements', 'gatherND', 'scatterElements', 'scatterND'],
    cpu: `${INDICES} Of several updates for one place, the last one stays, for any number of threads.`,
    gpu: `${INDICES} Of several updates for one place, the last one stays: a first kernel finds it for each place, whatever the order in which the device works.`,
  },
];

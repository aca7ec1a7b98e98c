/**
 * English descriptions of operators and their options for index.d.ts. The generator adds data types and ranks from the
 * rules. It fails if a parameter or option has no description, or a description has no owner.
 */

const SAME = 'The shape and data type of `input`.';

/** Operators with one input that keep its shape. `section` is the draft's anchor without the common prefix. */
const unary = (/** @type {string} */ text, section = 'unary') => ({ text, section, parameters: { input: 'Any shape.' }, returns: SAME });

const binary = (/** @type {string} */ text) => ({
  text,
  section: 'binary',
  parameters: { a: 'Broadcasts with `b`.', b: 'Broadcasts with `a`; same data type as `a`.' },
  returns: 'The broadcast shape of `a` and `b`, with their data type.',
  errors: 'the shapes do not broadcast',
});

const comparison = (/** @type {string} */ text) => ({
  ...binary(text),
  section: 'logical',
  returns: 'The broadcast shape of `a` and `b`; uint8, 1 where true and 0 elsewhere.',
});

const logicalBinary = (/** @type {string} */ text) => ({
  ...comparison(text),
  parameters: { a: 'Nonzero values are true. Broadcasts with `b`.', b: 'Nonzero values are true. Broadcasts with `a`.' },
});

const test = (/** @type {string} */ text) => ({
  text,
  section: 'logical',
  parameters: { a: 'Any shape.' },
  returns: 'The shape of `a`; uint8, 1 where true and 0 elsewhere.',
});

const reduction = (/** @type {string} */ text) => ({
  text,
  section: 'reduce',
  parameters: { input: 'Any shape.' },
  returns: 'The shape of `input` without the reduced axes, or with size 1 for them if `keepDimensions`; the data type of `input`.',
  errors: 'an axis is given twice or is not below the rank',
});

const position = (/** @type {string} */ text) => ({
  text,
  section: 'argminmax',
  parameters: { input: 'Any shape.', axis: 'The axis to search, below the rank of `input`.' },
  returns: 'The shape of `input` without `axis`, or with size 1 for it if `keepDimensions`; the data type is `outputDataType`.',
  errors: 'the axis is not below the rank, or its size does not fit the data type of the result',
});

const pooling = (/** @type {string} */ text, /** @type {string} */ section) => ({
  text,
  section: `pool2d-${section}`,
  parameters: { input: '[batches, channels, height, width], or as `layout` says.' },
  returns:
    'The layout of `input`, with output height and width `1 + (size - (window - 1) * dilation - 1 + padding) / stride`, rounded according to the options.',
  errors:
    'a list has the wrong length, a stride, dilation or window is 0, the window is larger than the padded input, or `outputSizes` is not one of the two roundings',
});

const QUANTIZED = 'has the rank of `input`, and each of its sizes divides that of `input`: one element applies to a block of neighbors';

const CLAMPED = 'Negative indices count from the end; indices out of range are clamped.';

const RECURRENT = {
  input: '[steps, batches, inputSize].',
  steps: 'Number of time steps, at least 1: the first size of `input`.',
  hiddenSize: 'Number of elements of the hidden state, at least 1.',
};

const directions = 'where directions is 2 if `direction` is "both", and 1 otherwise';

export const operators = {
  argMin: position('Index of the smallest value along an axis.'),
  argMax: position('Index of the largest value along an axis.'),
  batchNormalization: {
    text: 'Normalization along an axis with given mean and variance: `(x - mean) / sqrt(variance + epsilon) * scale + bias`.',
    section: 'batchnorm',
    parameters: { input: 'Any shape.', mean: '[size of `axis`].', variance: '[size of `axis`].' },
    returns: SAME,
    errors: 'the axis is not below the rank',
  },
  cast: {
    text: 'Conversion to another data type.',
    parameters: { input: 'Any shape.', dataType: 'The data type of the result.' },
    returns: 'The shape of `input`, with the new data type.',
  },
  clamp: { ...unary('Values limited to the range from minValue to maxValue.', 'clamp'), errors: 'minValue is above maxValue' },
  concat: {
    text: 'Inputs joined along an axis.',
    parameters: { inputs: 'At least one; equal data types, and equal shapes except for the size of `axis`.', axis: 'Below the rank of the inputs.' },
    returns: 'The shape of the inputs, with the sum of their sizes for `axis`.',
    errors: 'there is no input or the axis is not below the rank',
  },
  conv2d: {
    text: 'Two-dimensional convolution.',
    parameters: {
      input: '[batches, inputChannels, height, width], or as `inputLayout` says.',
      filter: '[outputChannels, inputChannels / groups, height, width], or as `filterLayout` says.',
    },
    returns:
      '[batches, outputChannels, height, width], or as `inputLayout` says, where the output height and width are `1 + floor((size - (filterSize - 1) * dilation - 1 + padding) / stride)`.',
    errors: 'a list has the wrong length, a stride or dilation is 0, channels and groups do not fit, or the filter is larger than the padded input',
  },
  convTranspose2d: {
    text: 'Two-dimensional transposed convolution.',
    parameters: {
      input: '[batches, inputChannels, height, width], or as `inputLayout` says.',
      filter: '[inputChannels, outputChannels / groups, height, width], or as `filterLayout` says.',
    },
    returns:
      '[batches, outputChannels, height, width], or as `inputLayout` says, where the output height and width are `(size - 1) * stride + (filterSize - 1) * dilation + 1 - padding + outputPadding`.',
    errors:
      'a list has the wrong length, a stride or dilation is 0, an output padding is not below its stride, channels and groups do not fit, or an output size is below 1',
  },
  cumulativeSum: {
    text: 'Running sums along an axis.',
    parameters: { input: 'Any shape.', axis: 'The axis to sum along, below the rank of `input`.' },
    returns: SAME,
    errors: 'the axis is not below the rank',
  },
  add: binary('Element-wise `a + b` with broadcasting.'),
  sub: binary('Element-wise `a - b` with broadcasting.'),
  mul: binary('Element-wise `a * b` with broadcasting.'),
  div: binary('Element-wise `a / b` with broadcasting.'),
  max: binary('Element-wise maximum of a and b with broadcasting.'),
  min: binary('Element-wise minimum of a and b with broadcasting.'),
  pow: binary('Element-wise `a` to the power `b` with broadcasting.'),
  equal: comparison('Element-wise `a == b`.'),
  notEqual: comparison('Element-wise `a != b`.'),
  greater: comparison('Element-wise `a > b`.'),
  greaterOrEqual: comparison('Element-wise `a >= b`.'),
  lesser: comparison('Element-wise `a < b`.'),
  lesserOrEqual: comparison('Element-wise `a <= b`.'),
  logicalNot: test('Element-wise logical not.'),
  logicalAnd: logicalBinary('Element-wise logical and.'),
  logicalOr: logicalBinary('Element-wise logical or.'),
  logicalXor: logicalBinary('Element-wise logical exclusive or.'),
  isNaN: test('Whether elements are NaN.'),
  isInfinite: test('Whether elements are infinite.'),
  abs: unary('Absolute value.'),
  ceil: unary('Rounding up.'),
  cos: unary('Cosine of radians.'),
  erf: unary('Gauss error function.'),
  exp: unary('Natural exponential.'),
  floor: unary('Rounding down.'),
  identity: unary('The input itself.'),
  log: unary('Natural logarithm.'),
  neg: unary('Negation.'),
  reciprocal: unary('`1 / x`.'),
  roundEven: unary('Rounding to the nearest integer, halves to even.'),
  sin: unary('Sine of radians.'),
  sign: unary('Sign: -1, 0 or 1.'),
  sqrt: unary('Square root.'),
  tan: unary('Tangent of radians.'),
  dequantizeLinear: {
    text: '`(input - zeroPoint) * scale`, with blockwise broadcasting of scale and zeroPoint.',
    parameters: { input: 'Any shape.', scale: `Positive; ${QUANTIZED}.`, zeroPoint: 'The shape of `scale` and the data type of `input`.' },
    returns: 'The shape of `input` and the data type of `scale`.',
    errors: 'the shape of scale does not divide that of input, or that of zeroPoint is another one',
  },
  quantizeLinear: {
    text: "`round(input / scale) + zeroPoint`, halves to even, limited to the range of the zero point's data type.",
    parameters: { input: 'Any shape.', scale: `Positive, of the data type of \`input\`; ${QUANTIZED}.`, zeroPoint: 'The shape of `scale`.' },
    returns: 'The shape of `input` and the data type of `zeroPoint`.',
    errors: 'the shape of scale does not divide that of input, or that of zeroPoint is another one',
  },
  elu: unary('Exponential linear unit: `max(0, x) + alpha * (exp(min(0, x)) - 1)`.', 'elu'),
  expand: {
    text: 'Broadcast to a new shape.',
    parameters: { input: 'Axes of size 1 are repeated; missing axes are added in front.', newShape: 'The shape of `input` must broadcast to it.' },
    returns: 'The shape `newShape`, with the data type of `input`.',
    errors: 'the shape of input does not broadcast to newShape',
  },
  gather: {
    text: 'Slices of the input along an axis, chosen by indices.',
    parameters: { input: 'Any shape.', indices: `Positions along \`axis\`. ${CLAMPED}` },
    returns: 'The shape of `input` with that of `indices` in place of `axis`; the data type of `input`.',
    errors: 'the axis is not below the rank',
  },
  gatherElements: {
    text: 'Single elements along an axis, chosen by indices of the output shape.',
    parameters: { input: 'Any shape.', indices: `Positions along \`axis\`; the shape of \`input\` except for that axis. ${CLAMPED}` },
    returns: 'The shape of `indices`, with the data type of `input`.',
    errors: 'the axis is not below the rank, or the size of another axis differs',
  },
  gatherND: {
    text: 'Slices of the input, chosen by index tuples.',
    parameters: { input: 'Any shape.', indices: `[..., n]: tuples of n positions along the first n axes of \`input\`. ${CLAMPED}` },
    returns: '[..., sizes of `input` after the first n]; the data type of `input`.',
    errors: 'the tuples are longer than the rank of input',
  },
  gelu: unary('Gaussian error linear unit: `0.5 * x * (1 + erf(x / sqrt(2)))`.', 'gelu-method'),
  gemm: {
    text: 'General matrix product: `alpha * a * b + beta * c`.',
    parameters: { a: '[m, k], or [k, m] if `aTranspose`.', b: '[k, n], or [n, k] if `bTranspose`.' },
    returns: '[m, n].',
    errors: 'columns of a and rows of b differ, or c does not broadcast to the result',
  },
  gru: {
    text: 'Gated recurrent unit over a sequence; returns the last state and, with returnSequence, the states of all steps.',
    parameters: {
      ...RECURRENT,
      weight: `[directions, 3 * hiddenSize, inputSize], ${directions}.`,
      recurrentWeight: '[directions, 3 * hiddenSize, hiddenSize].',
    },
    returns: '[last state: [directions, batches, hiddenSize]] and, with `returnSequence`, [steps, directions, batches, hiddenSize].',
    errors: 'a size does not fit, or there are not two activations',
  },
  gruCell: {
    text: 'One step of a gated recurrent unit.',
    parameters: {
      input: '[batches, inputSize].',
      weight: '[3 * hiddenSize, inputSize].',
      recurrentWeight: '[3 * hiddenSize, hiddenSize].',
      hiddenState: '[batches, hiddenSize].',
      hiddenSize: RECURRENT.hiddenSize,
    },
    returns: '[batches, hiddenSize].',
    errors: 'a size does not fit, or there are not two activations',
  },
  hardSigmoid: unary('`max(0, min(alpha * x + beta, 1))`.', 'hard-sigmoid'),
  hardSwish: unary('`x * max(0, min(6, x + 3)) / 6`.', 'hard-swish'),
  instanceNormalization: {
    text: 'Normalization of each channel of each image by its own mean and variance.',
    section: 'instancenorm',
    parameters: { input: '[batches, channels, height, width], or as `layout` says.' },
    returns: SAME,
  },
  layerNormalization: {
    text: 'Normalization over the given axes by the mean and variance of each sample.',
    section: 'layernorm',
    parameters: { input: 'Any shape.' },
    returns: SAME,
    errors: 'an axis is given twice or is not below the rank',
  },
  leakyRelu: unary('`max(0, x) + alpha * min(0, x)`.', 'leakyrelu'),
  linear: unary('`alpha * x + beta`.', 'linear'),
  lstm: {
    text: 'Long short-term memory over a sequence; returns the last hidden state, the last cell state and, with returnSequence, all hidden states.',
    parameters: {
      ...RECURRENT,
      weight: `[directions, 4 * hiddenSize, inputSize], ${directions}.`,
      recurrentWeight: '[directions, 4 * hiddenSize, hiddenSize].',
    },
    returns:
      '[last hidden state, last cell state: each [directions, batches, hiddenSize]] and, with `returnSequence`, [steps, directions, batches, hiddenSize].',
    errors: 'a size does not fit, or there are not three activations',
  },
  lstmCell: {
    text: 'One step of long short-term memory; returns the hidden state and the cell state.',
    parameters: {
      input: '[batches, inputSize].',
      weight: '[4 * hiddenSize, inputSize].',
      recurrentWeight: '[4 * hiddenSize, hiddenSize].',
      hiddenState: '[batches, hiddenSize].',
      cellState: '[batches, hiddenSize].',
      hiddenSize: RECURRENT.hiddenSize,
    },
    returns: '[hidden state, cell state], each [batches, hiddenSize].',
    errors: 'a size does not fit, or there are not three activations',
  },
  matmul: {
    text: 'Matrix product of the last two axes, with broadcasting of the others.',
    parameters: { a: '[..., m, k].', b: '[..., k, n].' },
    returns: '[..., m, n].',
    errors: 'columns of a and rows of b differ, or the other axes do not broadcast',
  },
  pad: {
    text: 'The input with padding around it.',
    parameters: {
      input: 'Any shape.',
      beginningPadding: 'Elements to add at the beginning of each axis; one number per axis of `input`.',
      endingPadding: 'Elements to add at the end of each axis; one number per axis of `input`.',
    },
    returns: 'The sizes of `input` with the padding added; its data type.',
    errors: 'a list has the wrong length, or a reflection is not smaller than its axis',
  },
  averagePool2d: pooling('Average of each window.', 'average'),
  l2Pool2d: pooling('Square root of the sum of squares of each window.', 'l2'),
  maxPool2d: pooling('Largest value of each window.', 'max'),
  prelu: {
    text: '`max(0, x) + slope * min(0, x)` with broadcasting of slope.',
    parameters: { input: 'Any shape.', slope: 'Broadcasts to `input`; same data type as `input`.' },
    returns: SAME,
    errors: 'the shapes do not broadcast',
  },
  reduceL1: reduction('Sum of absolute values over axes.'),
  reduceL2: reduction('Square root of the sum of squares over axes.'),
  reduceLogSum: reduction('Logarithm of the sum over axes.'),
  reduceLogSumExp: reduction('Logarithm of the sum of exponentials over axes.'),
  reduceMax: reduction('Largest value over axes.'),
  reduceMean: reduction('Mean over axes.'),
  reduceMin: reduction('Smallest value over axes.'),
  reduceProduct: reduction('Product over axes.'),
  reduceSum: reduction('Sum over axes.'),
  reduceSumSquare: reduction('Sum of squares over axes.'),
  relu: unary('`max(0, x)`.', 'relu-method'),
  resample2d: {
    text: 'Two axes resized by scales or to sizes.',
    section: 'resample2d-method',
    parameters: { input: 'Any shape of rank 4.' },
    returns: 'The shape of `input` with new sizes for the two axes: `sizes`, or `floor(size * scale)`.',
    errors: 'a list has the wrong length, a scale is not positive, an axis is given twice or a size is 0',
  },
  reshape: {
    text: 'The same elements in a new shape.',
    section: 'reshape-method',
    parameters: { input: 'Any shape.', newShape: 'Sizes with the same product as those of `input`.' },
    returns: 'The shape `newShape`, with the data type of `input`.',
    errors: 'the number of elements differs',
  },
  reverse: {
    text: 'Elements in reverse order along axes.',
    section: 'reverse-method',
    parameters: { input: 'Any shape.' },
    returns: SAME,
    errors: 'an axis is given twice or is not below the rank',
  },
  scatterElements: {
    text: 'The input with single elements along an axis replaced by updates.',
    parameters: {
      input: 'Any shape.',
      indices: `Positions along \`axis\`; the shape of \`input\` except for that axis. ${CLAMPED}`,
      updates: 'The new elements: the shape of `indices` and the data type of `input`.',
    },
    returns: SAME,
    errors: 'the axis is not below the rank, or a size differs',
  },
  scatterND: {
    text: 'The input with slices, chosen by index tuples, replaced by updates.',
    parameters: {
      input: 'Any shape.',
      indices: `[..., n]: tuples of n positions along the first n axes of \`input\`. ${CLAMPED}`,
      updates: 'The new slices: [..., sizes of `input` after the first n], with the data type of `input`.',
    },
    returns: SAME,
    errors: 'the tuples are longer than the rank of input, or the shape of updates does not fit',
  },
  sigmoid: unary('`1 / (1 + exp(-x))`.', 'sigmoid-method'),
  slice: {
    text: 'The part of the input that begins at starts and has the given sizes.',
    parameters: {
      input: 'Any shape.',
      starts: 'The first position along each axis; one number per axis of `input`.',
      sizes: 'The extent of the part along each axis before strides, at least 1; one number per axis of `input`.',
    },
    returns: 'The shape `sizes`, divided by the strides and rounded up; the data type of `input`.',
    errors: 'a list has the wrong length, a size or stride is 0, or the part reaches beyond the input',
  },
  softmax: {
    text: 'Exponentials divided by their sum along an axis.',
    section: 'softmax-method',
    parameters: { input: 'Any shape.', axis: 'The axis along which the results add up to 1, below the rank of `input`.' },
    returns: SAME,
    errors: 'the axis is not below the rank',
  },
  softplus: unary('`log(1 + exp(x))`.', 'softplus-method'),
  softsign: unary('`x / (1 + abs(x))`.', 'softsign-method'),
  split: {
    text: 'Parts of the input along an axis: a number of equal ones, or of the given sizes.',
    parameters: { input: 'Any shape.', splits: 'How many equal parts, or the size of each part; the sizes add up to that of the axis.' },
    returns: 'The parts in order: the shape of `input` except for the axis.',
    errors: 'the axis is not below the rank, or the parts do not add up to its size',
  },
  tanh: unary('Hyperbolic tangent.', 'tanh-method'),
  tile: {
    text: 'The input repeated along each axis.',
    parameters: { input: 'Any shape.', repetitions: 'How often each axis is repeated, at least once; one number per axis of `input`.' },
    returns: 'The sizes of `input`, each times its repetitions; its data type.',
    errors: 'the list has the wrong length or holds 0',
  },
  transpose: {
    text: 'Axes in another order; reversed without a permutation.',
    parameters: { input: 'Any shape.' },
    returns: 'The sizes of `input` in the new order; its data type.',
    errors: 'the permutation does not name each axis once',
  },
  triangular: {
    text: 'Upper or lower triangle of matrices, zeros elsewhere.',
    parameters: { input: '[..., rows, columns].' },
    returns: SAME,
  },
  where: {
    text: 'Element of trueValue where condition is not 0, of falseValue elsewhere, with broadcasting.',
    parameters: {
      condition: 'Broadcasts with the others.',
      trueValue: 'Broadcasts with the others.',
      falseValue: 'Broadcasts with the others; same data type as `trueValue`.',
    },
    returns: 'The broadcast shape of all three, with the data type of `trueValue`.',
    errors: 'the shapes do not broadcast',
  },
};

const IMAGE_PADDING = 'Rows and columns of zeros around the input: [above, below, left, right]; [0, 0, 0, 0] when absent.';
const STRIDES = 'Steps of the window: [down, right], at least 1; [1, 1] when absent.';
const DILATIONS = 'Distance between neighbors in the window: [down, right], at least 1; [1, 1] when absent.';
const GROUPS = 'Number of groups that channels are divided into; each has its own filters.';
const INPUT_LAYOUT = 'Axis order of input and result.';
const EPSILON = 'Added to the variance to avoid a division by zero.';
const LISTED_AXES = 'Different axes, each below the rank; all axes when absent, none when empty.';
const RECURRENT_BIAS = (/** @type {number} */ gates) => ({
  bias: `[directions, ${gates} * hiddenSize]; zeros when absent.`,
  recurrentBias: `[directions, ${gates} * hiddenSize]; zeros when absent.`,
});
const CELL_BIAS = (/** @type {number} */ gates) => ({
  bias: `[${gates} * hiddenSize]; zeros when absent.`,
  recurrentBias: `[${gates} * hiddenSize]; zeros when absent.`,
});
const SEQUENCE = {
  initialHiddenState: '[directions, batches, hiddenSize]; zeros when absent.',
  returnSequence: 'Whether to return the hidden states of all steps, too.',
  direction: 'The order of the steps; "both" runs one network in each direction.',
};
const GRU_ACTIVATIONS = 'For the update and reset gates, and for the new gate; sigmoid and tanh when absent.';
const LSTM_ACTIVATIONS = 'For the gates, for the cell gate, and for the hidden state; sigmoid, tanh and tanh when absent.';
const WEIGHT_LAYOUT = 'Order of the gates in weights and biases.';

/** Options by dictionary. Those of `MLOperatorOptions` are inherited by all. */
export const options = {
  MLOperatorOptions: { label: 'A name for messages and descriptions, without any other effect.' },
  MLArgMinMaxOptions: { keepDimensions: 'Whether to keep the axis, with size 1.', outputDataType: 'Data type of the result: int32 or int64.' },
  MLBatchNormalizationOptions: {
    scale: '[size of `axis`]; ones when absent.',
    bias: '[size of `axis`]; zeros when absent.',
    axis: 'The axis of the channels, below the rank of `input`.',
    epsilon: EPSILON,
  },
  MLClampOptions: {
    minValue: 'Smallest result, cast to the data type of the input; no limit when absent.',
    maxValue: 'Largest result, cast to the data type of the input; no limit when absent.',
  },
  MLConv2dOptions: {
    padding: IMAGE_PADDING,
    strides: STRIDES,
    dilations: DILATIONS,
    groups: GROUPS,
    inputLayout: INPUT_LAYOUT,
    filterLayout: 'Axis order of the filter.',
    bias: '[outputChannels]; added to the result.',
  },
  MLConvTranspose2dOptions: {
    padding: 'Rows and columns to remove around the result: [above, below, left, right]; [0, 0, 0, 0] when absent.',
    strides: 'Steps in the result: [down, right], at least 1; [1, 1] when absent.',
    dilations: DILATIONS,
    outputPadding: 'Rows and columns to add to the size of the result: [below, right], each below its stride; [0, 0] when absent.',
    outputSizes: '[height, width] of the result, in place of `outputPadding`; computed when absent.',
    groups: GROUPS,
    inputLayout: INPUT_LAYOUT,
    filterLayout: 'Axis order of the filter.',
    bias: '[outputChannels]; added to the result.',
  },
  MLCumulativeSumOptions: { exclusive: 'Whether to exclude an element from its own sum.', reversed: 'Whether to sum from the end of the axis.' },
  MLEluOptions: { alpha: 'Factor of negative values.' },
  MLGatherOptions: { axis: 'The axis that indices refer to, below the rank of `input`.' },
  MLGemmOptions: {
    c: 'Broadcasts to [m, n]; nothing is added when absent.',
    alpha: 'Factor of the product.',
    beta: 'Factor of `c`.',
    aTranspose: 'Whether `a` is [k, m].',
    bTranspose: 'Whether `b` is [n, k].',
  },
  MLGruOptions: {
    ...RECURRENT_BIAS(3),
    ...SEQUENCE,
    resetAfter: 'Whether the reset gate applies after the product with the recurrent weight.',
    layout: WEIGHT_LAYOUT,
    activations: GRU_ACTIVATIONS,
  },
  MLGruCellOptions: {
    ...CELL_BIAS(3),
    resetAfter: 'Whether the reset gate applies after the product with the recurrent weight.',
    layout: WEIGHT_LAYOUT,
    activations: GRU_ACTIVATIONS,
  },
  MLHardSigmoidOptions: { alpha: 'Slope.', beta: 'Offset.' },
  MLInstanceNormalizationOptions: {
    scale: '[channels]; ones when absent.',
    bias: '[channels]; zeros when absent.',
    epsilon: EPSILON,
    layout: INPUT_LAYOUT,
  },
  MLLayerNormalizationOptions: {
    scale: 'The sizes of `axes`, in their order; ones when absent.',
    bias: 'The sizes of `axes`, in their order; zeros when absent.',
    axes: 'Different axes, each below the rank; all but the first when absent, none when empty.',
    epsilon: EPSILON,
  },
  MLLeakyReluOptions: { alpha: 'Factor of negative values.' },
  MLLinearOptions: { alpha: 'Slope.', beta: 'Offset.' },
  MLLstmOptions: {
    ...RECURRENT_BIAS(4),
    peepholeWeight: '[directions, 3 * hiddenSize], for the input, output and forget gates; zeros when absent.',
    ...SEQUENCE,
    initialCellState: '[directions, batches, hiddenSize]; zeros when absent.',
    layout: WEIGHT_LAYOUT,
    activations: LSTM_ACTIVATIONS,
  },
  MLLstmCellOptions: {
    ...CELL_BIAS(4),
    peepholeWeight: '[3 * hiddenSize], for the input, output and forget gates; zeros when absent.',
    layout: WEIGHT_LAYOUT,
    activations: LSTM_ACTIVATIONS,
  },
  MLPadOptions: { mode: 'How the padding is filled.', value: 'The constant, cast to the data type of the input.' },
  MLPool2dOptions: {
    windowDimensions: '[height, width] of the window, at least 1; those of the input when absent.',
    padding: 'Rows and columns around the input: [above, below, left, right]; [0, 0, 0, 0] when absent.',
    strides: STRIDES,
    dilations: DILATIONS,
    layout: INPUT_LAYOUT,
    outputShapeRounding: 'Whether windows that fit only in part count ("ceil") or not ("floor").',
    outputSizes: '[height, width] of the result, in place of `outputShapeRounding`; equal to one of the two roundings.',
  },
  MLReduceOptions: { axes: LISTED_AXES, keepDimensions: 'Whether to keep reduced axes, with size 1.' },
  MLResample2dOptions: {
    mode: 'How elements between input elements are computed.',
    scales: 'Positive factors of the two axes; [1, 1] when absent.',
    sizes: 'New sizes of the two axes, in place of `scales`.',
    axes: 'Two different axes, each below the rank; [2, 3] when absent.',
  },
  MLReverseOptions: { axes: LISTED_AXES },
  MLScatterOptions: { axis: 'The axis that indices refer to, below the rank of `input`.' },
  MLSliceOptions: { strides: 'Steps along each axis, at least 1; one number per axis of `input`, ones when absent.' },
  MLSplitOptions: { axis: 'The axis to split, below the rank of `input`.' },
  MLTransposeOptions: { permutation: 'The axis of `input` for each axis of the result; each axis once.' },
  MLTriangularOptions: {
    upper: 'Whether to keep the upper triangle.',
    diagonal: 'How many diagonals above the main one the triangle begins or ends; negative below it.',
  },
};

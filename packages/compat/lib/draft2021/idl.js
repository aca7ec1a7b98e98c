'use strict';

/**
 * The IDL of the draft of 2021 as data, in the form of lib/operators.js, with what was added until spring 2022, while build() and
 * compute() were synchronous: operators without operand, `convTranspose2d`, `resample2d`, and sizes of pooling.
 */

/** Values of each enumeration. */
const enumerations = {
  MLDevicePreference: ['default', 'gpu', 'cpu'],
  MLPowerPreference: ['default', 'high-performance', 'low-power'],
  MLInputOperandLayout: ['nchw', 'nhwc'],
  MLOperandType: ['float32', 'float16', 'int32', 'uint32', 'int8', 'uint8'],
  MLFilterOperandLayout: ['oihw', 'hwio', 'ohwi', 'ihwo'],
  MLConvTranspose2dFilterOperandLayout: ['iohw', 'hwoi', 'ohwi'],
  MLAutoPad: ['explicit', 'same-upper', 'same-lower'],
  MLRecurrentNetworkWeightLayout: ['zrn', 'rzn'],
  MLRecurrentNetworkActivation: ['relu', 'sigmoid', 'tanh'],
  MLRecurrentNetworkDirection: ['forward', 'backward', 'both'],
  MLRoundingType: ['floor', 'ceil'],
  MLPaddingMode: ['constant', 'edge', 'reflection', 'symmetric'],
  MLInterpolationMode: ['nearest-neighbor', 'linear'],
};

/**
 * @param {string} name
 * @param {string} type
 * @param {unknown} [fallback]
 * @returns {import('webnn-node/internal/webidl').DictionaryMember}
 */
const member = (name, type, fallback) => ({ name, type, default: fallback });

/**
 * Members that both kinds of convolutions have.
 *
 * @param {import('webnn-node/internal/webidl').DictionaryMember} filterLayout
 */
const convolution = (filterLayout) => [
  member('activation', 'MLOperator'),
  member('autoPad', 'MLAutoPad', 'explicit'),
  member('bias', 'MLOperand'),
  member('dilations', 'sequence<long>'),
  filterLayout,
  member('groups', 'long', 1),
  member('inputLayout', 'MLInputOperandLayout', 'nchw'),
  member('outputPadding', 'sequence<long>'),
  member('outputSizes', 'sequence<long>'),
  member('padding', 'sequence<long>'),
  member('strides', 'sequence<long>'),
];

const cell = [member('activations', 'sequence<(MLRecurrentNetworkActivation or MLOperator)>'), member('bias', 'MLOperand')];

/**
 * Members of each dictionary in the order in which they are read, sorted by name.
 *
 * @type {Record<string, import('webnn-node/internal/webidl').DictionaryMember[]>}
 */
const dictionaries = {
  MLContextOptions: [member('devicePreference', 'MLDevicePreference', 'default'), member('powerPreference', 'MLPowerPreference', 'default')],
  MLOperandDescriptor: [member('dimensions', 'sequence<long>'), { name: 'type', type: 'MLOperandType', required: true }],
  MLInput: [
    { name: 'dimensions', type: 'sequence<long>', required: true },
    { name: 'resource', type: 'MLResource', required: true },
  ],
  MLBatchNormalizationOptions: [
    member('activation', 'MLOperator'),
    member('axis', 'long', 1),
    member('bias', 'MLOperand'),
    member('epsilon', 'float', 1e-5),
    member('scale', 'MLOperand'),
  ],
  MLClampOptions: [member('maxValue', '(MLOperand or float)'), member('minValue', '(MLOperand or float)')],
  MLConv2dOptions: [...convolution(member('filterLayout', 'MLFilterOperandLayout', 'oihw')), member('transpose', 'boolean', false)],
  MLConvTranspose2dOptions: convolution(member('filterLayout', 'MLConvTranspose2dFilterOperandLayout', 'iohw')),
  MLGemmOptions: [
    member('aTranspose', 'boolean', false),
    member('alpha', 'float', 1),
    member('bTranspose', 'boolean', false),
    member('beta', 'float', 1),
    member('c', 'MLOperand'),
  ],
  MLGruOptions: [
    ...cell,
    member('direction', 'MLRecurrentNetworkDirection', 'forward'),
    member('initialHiddenState', 'MLOperand'),
    member('layout', 'MLRecurrentNetworkWeightLayout', 'zrn'),
    member('recurrentBias', 'MLOperand'),
    member('resetAfter', 'boolean', true),
    member('returnSequence', 'boolean', false),
  ],
  MLGruCellOptions: [
    ...cell,
    member('layout', 'MLRecurrentNetworkWeightLayout', 'zrn'),
    member('recurrentBias', 'MLOperand'),
    member('resetAfter', 'boolean', true),
  ],
  MLInstanceNormalizationOptions: [
    member('bias', 'MLOperand'),
    member('epsilon', 'float', 1e-5),
    member('layout', 'MLInputOperandLayout', 'nchw'),
    member('scale', 'MLOperand'),
  ],
  MLLeakyReluOptions: [member('alpha', 'float', 0.01)],
  MLPadOptions: [member('mode', 'MLPaddingMode', 'constant'), member('value', 'float', 0)],
  MLPool2dOptions: [
    member('autoPad', 'MLAutoPad', 'explicit'),
    member('dilations', 'sequence<long>'),
    member('layout', 'MLInputOperandLayout', 'nchw'),
    member('outputSizes', 'sequence<long>'),
    member('padding', 'sequence<long>'),
    member('roundingType', 'MLRoundingType', 'floor'),
    member('strides', 'sequence<long>'),
    member('windowDimensions', 'sequence<long>'),
  ],
  MLReduceOptions: [
    // `sequence<long> axes = null` in the draft, where null means all axes.
    member('axes', 'sequence<long>?'),
    member('keepDimensions', 'boolean', false),
  ],
  MLResampleOptions: [member('mode', 'MLInterpolationMode', 'nearest-neighbor'), member('scales', 'sequence<float>'), member('sizes', 'sequence<long>')],
  MLResample2dOptions: [
    member('axes', 'sequence<long>'),
    member('mode', 'MLInterpolationMode', 'nearest-neighbor'),
    member('scales', 'sequence<float>'),
    member('sizes', 'sequence<long>'),
  ],
  MLSliceOptions: [member('axes', 'sequence<long>')],
  MLSplitOptions: [member('axis', 'long', 0)],
  MLSqueezeOptions: [member('axes', 'sequence<long>')],
  MLTransposeOptions: [member('permutation', 'sequence<long>')],
};

const OPERAND = 'MLOperand';
const OPERANDS = 'sequence<MLOperand>';

/**
 * @param {string} name
 * @param {(string | { name: string, type: string })[]} parameters names of operands, or names and types
 * @param {string} [options]
 * @param {string} [result]
 * @returns {import('../internal.js').Row}
 */
const row = (name, parameters, options, result = OPERAND) => ({
  name,
  arguments: parameters.map((parameter) => (typeof parameter === 'string' ? { name: parameter, type: OPERAND } : parameter)),
  options,
  result,
});

/**
 * Creates rows that differ only in their names.
 *
 * @param {string[]} names
 * @param {string[]} parameters
 * @param {string} [options]
 */
const rows = (names, parameters, options) => names.map((name) => row(name, parameters, options));

/** The operator methods of MLGraphBuilder; `options` is undefined for those that have none. */
const operators = [
  row('batchNormalization', ['input', 'mean', 'variance'], 'MLBatchNormalizationOptions'),
  row('clamp', ['x'], 'MLClampOptions'),
  row('concat', [
    { name: 'inputs', type: OPERANDS },
    { name: 'axis', type: 'long' },
  ]),
  row('conv2d', ['input', 'filter'], 'MLConv2dOptions'),
  row('convTranspose2d', ['input', 'filter'], 'MLConvTranspose2dOptions'),
  ...rows(['add', 'sub', 'mul', 'div', 'max', 'min', 'pow'], ['a', 'b']),
  ...rows(['abs', 'ceil', 'cos', 'exp', 'floor', 'hardSwish', 'log', 'neg', 'relu', 'sigmoid', 'sin', 'tan', 'tanh'], ['x']),
  row('gemm', ['a', 'b'], 'MLGemmOptions'),
  row('gru', ['input', 'weight', 'recurrentWeight', { name: 'steps', type: 'long' }, { name: 'hiddenSize', type: 'long' }], 'MLGruOptions', OPERANDS),
  row('gruCell', ['input', 'weight', 'recurrentWeight', 'hiddenState', { name: 'hiddenSize', type: 'long' }], 'MLGruCellOptions'),
  row('instanceNormalization', ['input'], 'MLInstanceNormalizationOptions'),
  row('leakyRelu', ['x'], 'MLLeakyReluOptions'),
  row('matmul', ['a', 'b']),
  row('pad', ['input', 'padding'], 'MLPadOptions'),
  ...rows(['averagePool2d', 'l2Pool2d', 'maxPool2d'], ['input'], 'MLPool2dOptions'),
  ...rows(
    ['reduceL1', 'reduceL2', 'reduceLogSum', 'reduceLogSumExp', 'reduceMax', 'reduceMean', 'reduceMin', 'reduceProduct', 'reduceSum', 'reduceSumSquare'],
    ['input'],
    'MLReduceOptions',
  ),
  row('resample', ['input'], 'MLResampleOptions'),
  row('resample2d', ['input'], 'MLResample2dOptions'),
  // Later drafts, and programs, write null for the size that is computed from the others; this draft writes -1.
  row('reshape', ['input', { name: 'newShape', type: 'sequence<long?>' }]),
  row('slice', ['input', { name: 'starts', type: 'sequence<long>' }, { name: 'sizes', type: 'sequence<long>' }], 'MLSliceOptions'),
  row('softmax', ['x']),
  row('split', ['input', { name: 'splits', type: '(unsigned long or sequence<unsigned long>)' }], 'MLSplitOptions', OPERANDS),
  row('squeeze', ['input'], 'MLSqueezeOptions'),
  row('transpose', ['input'], 'MLTransposeOptions'),
];

/** Operators whose methods, called without an operand, make an MLOperator. */
const ACTIVATIONS = ['clamp', 'hardSwish', 'leakyRelu', 'relu', 'sigmoid', 'tanh'];

module.exports = { ACTIVATIONS, dictionaries, enumerations, operators };

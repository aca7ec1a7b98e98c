// Tests of the Web Platform Tests, as of March 2025, that contradict the Candidate Recommendation Draft of 21 May 2026,
// https://www.w3.org/TR/2026/CRD-webnn-20260521/, each with the clause that it contradicts: the section and its words.
// A few cannot pass for another reason, which stands in place of the clause. `patch` is what would have to change in the tests.
//
// The runner holds every entry to its word: each subtest that it names has to fail with its message, and where the file
// as a whole is named (`subtests: null`), the file has to end with an error. What passes must leave the table, but for
// what a test leaves to chance: `timing` says why.

const inputName = {
  clause:
    'input operands, input(): "If any MLOperands in this’s graph’s inputs have a [[name]] equal to name, then throw a TypeError." The test gives two inputs of a builder one name',
  patch: 'give the second input another name',
};
const twice = /there is already an input with the name "\w+"/;

const int4 = {
  clause: 'MLOperandDataType has no "int4" and no "uint4"',
  patch: 'remove the cases of 4-bit integers',
};

const quantizedRank = (/** @type {string} */ operator) => ({
  clause: `${operator}: "If scale’s rank or zeroPoint’s rank is not equal to input’s rank, then throw a TypeError."`,
  patch: 'reshape scale and zeroPoint to the rank of input',
});
const otherRank = /: scale has rank \d, expected \d/;

const destroyedTensor = (/** @type {string} */ operation) => ({
  clause: `MLContext, ${operation}: "If tensor.[[isDestroyed]] is true", the exception is a TypeError. The test expects an InvalidStateError`,
  patch: 'expect a TypeError',
});
const isDestroyed = /TypeError: (read|write)Tensor: tensor is destroyed" that is not a DOMException InvalidStateError/;

const bufferType = {
  clause: 'MLContext, validate buffer with descriptor: "If bufferSource matches descriptor’s dataType", and a Uint32Array does not match int32',
  patch: 'write an Int32Array',
};
const unsignedForSigned = /writeTensor: inputData is a Uint32Array, expected an Int32Array for int32/;

const rounding = {
  clause: 'MLPool2dOptions has no "roundingType"; its "outputShapeRounding" is "floor" by default',
  patch: 'name it outputShapeRounding',
};
const roundedDown = /expected property \d to be \d but got \d/;

const softmaxAxis = {
  clause: 'softmax: "MLOperand softmax(MLOperand input, [EnforceRange] unsigned long axis, optional MLOperatorOptions options = {})" requires an axis',
  patch: 'pass the axis',
};
const noAxis = /softmax: 2 arguments required, 1 given/;

/** @type {import('./verdict.mjs').Entry[]} */
export const CONTRADICTIONS = [
  // Names of inputs
  {
    ...inputName,
    files: /validation_tests\/(elu|gelu|hardSigmoid|hardSwish|leakyRelu|linear|relu|sigmoid|softplus|softsign|tanh)\.https/,
    subtests: /^\[\w+\] (Test building the operator with supported data type|Throw if the data type is not supported for the operator)\.$/,
    message: twice,
  },
  {
    ...inputName,
    files: /validation_tests\/elementwise-unary\.https/,
    subtests:
      /^\[\w+\] Test building the operator with supported data type\.$|^\[(?!identity\])\w+\] Throw if the data type is not supported for the operator\.$/,
    message: twice,
  },
  {
    ...inputName,
    files: /validation_tests\/clamp\.https/,
    subtests: /^\[clamp\] Test building the operator with supported data type\.$/,
    message: twice,
  },
  {
    ...inputName,
    files: /validation_tests\/prelu\.https/,
    subtests: /^\[prelu\] (Test slope's shape = |Throw if the shape of slope is not broadcastable|Throw if the data type of slope does not match)/,
    message: twice,
  },
  {
    ...inputName,
    files: /validation_tests\/concat\.https/,
    subtests: /^\[concat\] throw if any input is from another builder$/,
    message: twice,
  },
  {
    ...inputName,
    files: /validation_tests\/scatterND\.https/,
    subtests: /^\[scatterND\] Throw if input is from another builder$/,
    message: twice,
  },

  // Data types
  {
    ...int4,
    files: /conformance_tests\/(de)?quantizeLinear\.https/,
    subtests: /int4/,
    message: /constant: descriptor\.dataType is "u?int4"/,
  },

  // Shapes of scale and zero point
  {
    ...quantizedRank('dequantizeLinear'),
    files: /conformance_tests\/dequantizeLinear\.https/,
    subtests: /^dequantizeLinear int8 4D constant tensor broadcasting scale and zeroPoint$/,
    message: otherRank,
  },
  {
    ...quantizedRank('quantizeLinear'),
    files: /conformance_tests\/quantizeLinear\.https/,
    subtests:
      /^quantizeLinear float32 (2D|4D) constant tensor broadcasting |^per-tensor quantizeLinear for float32 4D constant$|^quantizeLinear float32 3D input with implicit block_size = /,
    message: otherRank,
  },
  {
    ...quantizedRank('quantizeLinear'),
    files: /conformance_tests\/subgraph\.https/,
    subtests: /^quantized conv2d$/,
    message: otherRank,
  },
  {
    ...quantizedRank('dequantizeLinear'),
    files: /validation_tests\/dequantizeLinear\.https/,
    subtests: /^\[dequantizeLinear\] Test scale's shape = \[5?\] .* which is unidirectionally broadcastable to input's shape\.$/,
    message: otherRank,
  },
  {
    ...quantizedRank('quantizeLinear'),
    files: /validation_tests\/quantizeLinear\.https/,
    subtests: /^\[quantizeLinear\] Test scale's shape = \[5?\] .* which is unidirectionally broadcastable to input's shape\.$/,
    message: otherRank,
  },

  // Tensors
  {
    ...destroyedTensor('readTensor(tensor)'),
    files: /conformance_tests\/tensor\.https/,
    subtests: /^read \/ read_after_destroy$/,
    message: isDestroyed,
  },
  {
    ...destroyedTensor('writeTensor()'),
    files: /conformance_tests\/tensor\.https/,
    subtests: /^write \/ destroy$/,
    message: isDestroyed,
  },
  {
    ...destroyedTensor('writeTensor()'),
    files: /validation_tests\/destroyContext\.https/,
    subtests: /^Destroyed context can not write tensor\.$/,
    message: isDestroyed,
  },
  {
    ...destroyedTensor('readTensor(tensor)'),
    files: /validation_tests\/destroyContext\.https/,
    subtests: null,
    message: isDestroyed,
  },
  {
    ...bufferType,
    files: /conformance_tests\/tensor\.https/,
    subtests: /^read \/ overwrite$/,
    message: unsignedForSigned,
  },
  {
    ...bufferType,
    files: /conformance_tests\/byob_readtensor\.https/,
    subtests: null,
    message: unsignedForSigned,
  },

  // Contexts
  {
    clause: 'MLContextOptions has no "deviceType", and dictionaries ignore members that they do not have',
    patch: 'remove the case',
    files: /validation_tests\/createContext\.https/,
    subtests: /^Throw if deviceType is not a valid enum value/,
    message: /Should have rejected/,
    timing: 'the test does not wait for the promise that it wants rejected, and has passed when it ends before a context is there',
  },

  // Operators
  {
    ...softmaxAxis,
    files: /conformance_tests\/softmax\.https/,
    subtests: /^softmax float(32|16) 2D (constant )?tensor all (positive|negative)$/,
    message: noAxis,
  },
  {
    ...softmaxAxis,
    files: /validation_tests\/softmax\.https/,
    subtests: /^\[softmax\] Test building Softmax with float(32|16) input without axis\.$/,
    message: noAxis,
  },
  {
    clause: `${softmaxAxis.clause}. The test passes options in its place and looks for their label in the message`,
    patch: 'pass the axis in front of the options',
    files: /validation_tests\/softmax\.https/,
    subtests: /^\[softmax\] Throw if (the input is not a non-floating point data|the input dimensions is not 2)\.$/,
    message: /got disallowed value null/,
  },
  {
    ...rounding,
    files: /conformance_tests\/pooling\.https/,
    subtests: /(?<!ignores )options\.roundingType=ceil/,
    message: roundedDown,
  },
  {
    ...rounding,
    files: /validation_tests\/pooling\.https/,
    subtests: /^Test pool2d with strides, padding and roundingType="ceil"\.$/,
    message: roundedDown,
  },
  {
    clause:
      'l2Pool2d: "The L2 norm is the square root of the sum of the squares of its elements." The third expected value, 8222.29, is that sum itself, and 90.68 its root',
    patch: 'expect 90.68',
    files: /conformance_tests\/pooling\.https/,
    subtests: /^l2Pool2d float32 4D tensor options\.outputSizes ignores options\.roundingType=floor$/,
    message: /actual 90\.676\d* should be close enough to expected 8222\.29/,
  },
  {
    clause: 'MLPaddingMode has no "symmetric"',
    patch: 'remove the case',
    files: /conformance_tests\/pad\.https/,
    subtests: /^pad float32 4D tensor options\.mode='symmetric'$/,
    message: /options\.mode is "symmetric"/,
  },
  {
    clause: 'pad, tensor limits: the allowed ranks of input are any. The test expects an exception for a scalar',
    patch: 'expect an operand',
    files: /validation_tests\/pad\.https/,
    subtests: /^\[pad\] Throw if building pad for scalar input\.$/,
    message: /expected "TypeError" but got "Error"/,
  },
  {
    clause: 'MLNumber: "typedef (bigint or unrestricted double) MLNumber", of which -Infinity is one. The test expects an exception',
    patch: 'expect an operand',
    files: /validation_tests\/clamp\.https/,
    subtests: /^\[clamp\] Throw if options\.minValue is -Infinity$/,
    message: /did not throw/,
  },
  {
    clause:
      'gelu: "0.5 * x * (1 + erf(x / sqrt(2)))" of -3 / sqrt(2.00001) is -0.0359513043. The expected -0.0359511785 is 34 ULP away from that, and 24 are tolerated',
    patch: 'expect -0.0359513043',
    files: /conformance_tests\/subgraph\.https/,
    subtests: /^batchNormalization options\.axis=0 \+ gelu$/,
    message: /actual -0\.0359513\d* should be close enough to expected -0\.0359511\d* /,
  },

  // Faults of tests, and what an engine lacks
  {
    clause: 'ECMAScript, ToBigInt: a Number is a TypeError. The test fills a BigUint64Array with Numbers',
    patch: 'write BigInts',
    files: /conformance_tests\/clamp\.https/,
    subtests: /^clamp uint64 1D tensor$/,
    message: /Cannot convert 5294967295 to a BigInt/,
  },
  {
    clause: 'ECMAScript 2025, Float16Array objects: this engine, as that of Node 20 and 22, has none',
    patch: 'none: Node 24 has them',
    without: 'Float16Array',
    files: /validation_tests\/constant\.https/,
    subtests: null,
    message: /Float16Array is not defined/,
  },
];

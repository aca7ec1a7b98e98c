/**
 * A small example of each operator for its page: the arguments of the call, the operands by their names in it, and the
 * output. The tests of the documentation run all of them.
 *
 * Operands are nested lists, of float32 unless another type is named. Results are written as type, shape and elements;
 * an ellipsis follows the digits that every machine agrees on. Operators with a list of results have a name for each.
 */

/** @typedef {number | Nested[]} Nested numbers, in lists as deep as the tensor has axes */

const uint8 = (/** @type {Nested} */ values) => ({ dataType: 'uint8', values });
const int32 = (/** @type {Nested} */ values) => ({ dataType: 'int32', values });

/** @type {Record<string, { arguments: string, operands: Record<string, Nested | { dataType: string, values: Nested }>, output?: string, list?: Record<string, string> }>} */
export const examples = {
  argMin: {
    arguments: 'input, 1',
    operands: {
      input: [
        [3, 1, 2],
        [6, 5, 4],
      ],
    },
    output: 'int32 [2] 1 2',
  },
  argMax: {
    arguments: 'input, 1',
    operands: {
      input: [
        [3, 1, 2],
        [6, 5, 4],
      ],
    },
    output: 'int32 [2] 0 0',
  },
  batchNormalization: {
    arguments: 'input, mean, variance, { axis: 1, epsilon: 0 }',
    operands: {
      input: [
        [1, 10],
        [3, 30],
      ],
      mean: [2, 20],
      variance: [1, 100],
    },
    output: 'float32 [2, 2] -1 -1 1 1',
  },
  cast: { arguments: "input, 'int32'", operands: { input: [-1.5, 0.5, 2.9] }, output: 'int32 [3] -1 0 2' },
  clamp: { arguments: 'input, { minValue: 0, maxValue: 6 }', operands: { input: [-2, 3, 8] }, output: 'float32 [3] 0 3 6' },
  concat: {
    arguments: '[a, b], 0',
    operands: {
      a: [[1, 2]],
      b: [
        [3, 4],
        [5, 6],
      ],
    },
    output: 'float32 [3, 2] 1 2 3 4 5 6',
  },
  conv2d: {
    arguments: 'input, filter',
    operands: {
      input: [
        [
          [
            [1, 2, 3],
            [4, 5, 6],
            [7, 8, 9],
          ],
        ],
      ],
      filter: [
        [
          [
            [1, 0],
            [0, 1],
          ],
        ],
      ],
    },
    output: 'float32 [1, 1, 2, 2] 6 8 12 14',
  },
  convTranspose2d: {
    arguments: 'input, filter, { strides: [2, 2] }',
    operands: {
      input: [
        [
          [
            [1, 2],
            [3, 4],
          ],
        ],
      ],
      filter: [
        [
          [
            [1, 1],
            [1, 1],
          ],
        ],
      ],
    },
    output: 'float32 [1, 1, 4, 4] 1 1 2 2 1 1 2 2 3 3 4 4 3 3 4 4',
  },
  cumulativeSum: { arguments: 'input, 0', operands: { input: [1, 2, 3, 4] }, output: 'float32 [4] 1 3 6 10' },
  add: {
    arguments: 'a, b',
    operands: {
      a: [
        [1, 2],
        [3, 4],
      ],
      b: [10, 20],
    },
    output: 'float32 [2, 2] 11 22 13 24',
  },
  sub: {
    arguments: 'a, b',
    operands: {
      a: [
        [1, 2],
        [3, 4],
      ],
      b: [10, 20],
    },
    output: 'float32 [2, 2] -9 -18 -7 -16',
  },
  mul: {
    arguments: 'a, b',
    operands: {
      a: [
        [1, 2],
        [3, 4],
      ],
      b: [10, 20],
    },
    output: 'float32 [2, 2] 10 40 30 80',
  },
  div: {
    arguments: 'a, b',
    operands: {
      a: [
        [1, 2],
        [3, 4],
      ],
      b: [2, 4],
    },
    output: 'float32 [2, 2] 0.5 0.5 1.5 1',
  },
  max: {
    arguments: 'a, b',
    operands: {
      a: [
        [1, 2],
        [3, 4],
      ],
      b: [2, 3],
    },
    output: 'float32 [2, 2] 2 3 3 4',
  },
  min: {
    arguments: 'a, b',
    operands: {
      a: [
        [1, 2],
        [3, 4],
      ],
      b: [2, 3],
    },
    output: 'float32 [2, 2] 1 2 2 3',
  },
  pow: {
    arguments: 'a, b',
    operands: {
      a: [
        [1, 2],
        [3, 4],
      ],
      b: [2, 3],
    },
    output: 'float32 [2, 2] 1 8 9 64',
  },
  equal: { arguments: 'a, b', operands: { a: [1, 2, 3], b: 2 }, output: 'uint8 [3] 0 1 0' },
  notEqual: { arguments: 'a, b', operands: { a: [1, 2, 3], b: 2 }, output: 'uint8 [3] 1 0 1' },
  greater: { arguments: 'a, b', operands: { a: [1, 2, 3], b: 2 }, output: 'uint8 [3] 0 0 1' },
  greaterOrEqual: { arguments: 'a, b', operands: { a: [1, 2, 3], b: 2 }, output: 'uint8 [3] 0 1 1' },
  lesser: { arguments: 'a, b', operands: { a: [1, 2, 3], b: 2 }, output: 'uint8 [3] 1 0 0' },
  lesserOrEqual: { arguments: 'a, b', operands: { a: [1, 2, 3], b: 2 }, output: 'uint8 [3] 1 1 0' },
  logicalNot: { arguments: 'a', operands: { a: uint8([0, 1, 7]) }, output: 'uint8 [3] 1 0 0' },
  logicalAnd: { arguments: 'a, b', operands: { a: uint8([0, 0, 1, 1]), b: uint8([0, 1, 0, 1]) }, output: 'uint8 [4] 0 0 0 1' },
  logicalOr: { arguments: 'a, b', operands: { a: uint8([0, 0, 1, 1]), b: uint8([0, 1, 0, 1]) }, output: 'uint8 [4] 0 1 1 1' },
  logicalXor: { arguments: 'a, b', operands: { a: uint8([0, 0, 1, 1]), b: uint8([0, 1, 0, 1]) }, output: 'uint8 [4] 0 1 1 0' },
  isNaN: { arguments: 'a', operands: { a: [1, NaN, Infinity] }, output: 'uint8 [3] 0 1 0' },
  isInfinite: { arguments: 'a', operands: { a: [1, NaN, -Infinity] }, output: 'uint8 [3] 0 0 1' },
  abs: { arguments: 'input', operands: { input: [-1.5, 0, 2] }, output: 'float32 [3] 1.5 0 2' },
  ceil: { arguments: 'input', operands: { input: [-1.5, 0.25, 2] }, output: 'float32 [3] -1 1 2' },
  cos: { arguments: 'input', operands: { input: [0, Math.PI] }, output: 'float32 [2] 1 -1' },
  erf: { arguments: 'input', operands: { input: [-1, 0, 1] }, output: 'float32 [3] -0.84270… 0 0.84270…' },
  exp: { arguments: 'input', operands: { input: [0, 1] }, output: 'float32 [2] 1 2.71828…' },
  floor: { arguments: 'input', operands: { input: [-1.5, 0.25, 2] }, output: 'float32 [3] -2 0 2' },
  identity: { arguments: 'input', operands: { input: [1, 2, 3] }, output: 'float32 [3] 1 2 3' },
  log: { arguments: 'input', operands: { input: [1, 10] }, output: 'float32 [2] 0 2.30258…' },
  neg: { arguments: 'input', operands: { input: [-1, 2] }, output: 'float32 [2] 1 -2' },
  reciprocal: { arguments: 'input', operands: { input: [0.5, 2, 4] }, output: 'float32 [3] 2 0.5 0.25' },
  roundEven: { arguments: 'input', operands: { input: [0.5, 1.5, 2.5, -2.7] }, output: 'float32 [4] 0 2 2 -3' },
  sin: { arguments: 'input', operands: { input: [0, 1] }, output: 'float32 [2] 0 0.84147…' },
  sign: { arguments: 'input', operands: { input: [-3, 0, 5] }, output: 'float32 [3] -1 0 1' },
  sqrt: { arguments: 'input', operands: { input: [0, 4, 9] }, output: 'float32 [3] 0 2 3' },
  tan: { arguments: 'input', operands: { input: [0, 1] }, output: 'float32 [2] 0 1.55740…' },
  dequantizeLinear: {
    arguments: 'input, scale, zeroPoint',
    operands: { input: uint8([0, 128, 255]), scale: [0.5], zeroPoint: uint8([128]) },
    output: 'float32 [3] -64 0 63.5',
  },
  quantizeLinear: {
    arguments: 'input, scale, zeroPoint',
    operands: { input: [-1, 0, 0.3, 1000], scale: [0.5], zeroPoint: uint8([128]) },
    output: 'uint8 [4] 126 128 129 255',
  },
  elu: { arguments: 'input', operands: { input: [-1, 0, 1] }, output: 'float32 [3] -0.63212… 0 1' },
  expand: { arguments: 'input, [2, 3]', operands: { input: [1, 2, 3] }, output: 'float32 [2, 3] 1 2 3 1 2 3' },
  gather: {
    arguments: 'input, indices, { axis: 0 }',
    operands: {
      input: [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
      indices: int32([2, 0]),
    },
    output: 'float32 [2, 2] 5 6 1 2',
  },
  gatherElements: {
    arguments: 'input, indices, { axis: 1 }',
    operands: {
      input: [
        [1, 2, 3],
        [4, 5, 6],
      ],
      indices: int32([[2], [0]]),
    },
    output: 'float32 [2, 1] 3 4',
  },
  gatherND: {
    arguments: 'input, indices',
    operands: {
      input: [
        [1, 2],
        [3, 4],
      ],
      indices: int32([
        [0, 1],
        [1, 0],
      ]),
    },
    output: 'float32 [2] 2 3',
  },
  gelu: { arguments: 'input', operands: { input: [-1, 0, 1] }, output: 'float32 [3] -0.15865… 0 0.84134…' },
  gemm: {
    arguments: 'a, b, { c, alpha: 2 }',
    operands: {
      a: [
        [1, 2],
        [3, 4],
      ],
      b: [
        [1, 0],
        [0, 1],
      ],
      c: [10, 20],
    },
    output: 'float32 [2, 2] 12 24 16 28',
  },
  gru: {
    arguments: 'input, weight, recurrentWeight, 2, 1',
    operands: { input: [[[1]], [[1]]], weight: [[[0], [0], [1]]], recurrentWeight: [[[0], [0], [0]]] },
    list: { lastState: 'float32 [1, 1, 1] 0.57119…' },
  },
  gruCell: {
    arguments: 'input, weight, recurrentWeight, hiddenState, 1',
    operands: { input: [[1]], weight: [[0], [0], [1]], recurrentWeight: [[0], [0], [0]], hiddenState: [[0]] },
    output: 'float32 [1, 1] 0.38079…',
  },
  hardSigmoid: { arguments: 'input', operands: { input: [-5, 0, 5] }, output: 'float32 [3] 0 0.5 1' },
  hardSwish: { arguments: 'input', operands: { input: [-1, 0, 3] }, output: 'float32 [3] -0.33333… 0 3' },
  instanceNormalization: { arguments: 'input, { epsilon: 0 }', operands: { input: [[[[1, 3]], [[10, 30]]]] }, output: 'float32 [1, 2, 1, 2] -1 1 -1 1' },
  layerNormalization: {
    arguments: 'input, { axes: [1], epsilon: 0 }',
    operands: {
      input: [
        [1, 3],
        [10, 30],
      ],
    },
    output: 'float32 [2, 2] -1 1 -1 1',
  },
  leakyRelu: { arguments: 'input, { alpha: 0.25 }', operands: { input: [-4, 0, 4] }, output: 'float32 [3] -1 0 4' },
  linear: { arguments: 'input, { alpha: 2, beta: 1 }', operands: { input: [1, 2, 3] }, output: 'float32 [3] 3 5 7' },
  lstm: {
    arguments: 'input, weight, recurrentWeight, 2, 1',
    operands: { input: [[[1]], [[1]]], weight: [[[0], [0], [0], [1]]], recurrentWeight: [[[0], [0], [0], [0]]] },
    list: { hiddenState: 'float32 [1, 1, 1] 0.25811…', cellState: 'float32 [1, 1, 1] 0.57119…' },
  },
  lstmCell: {
    arguments: 'input, weight, recurrentWeight, hiddenState, cellState, 1',
    operands: { input: [[1]], weight: [[0], [0], [0], [1]], recurrentWeight: [[0], [0], [0], [0]], hiddenState: [[0]], cellState: [[2]] },
    list: { nextHidden: 'float32 [1, 1] 0.44056…', nextCell: 'float32 [1, 1] 1.38079…' },
  },
  matmul: {
    arguments: 'a, b',
    operands: {
      a: [
        [1, 2],
        [3, 4],
      ],
      b: [
        [1, 0],
        [0, 2],
      ],
    },
    output: 'float32 [2, 2] 1 4 3 8',
  },
  pad: {
    arguments: 'input, [0, 1], [0, 1], { value: 9 }',
    operands: {
      input: [
        [1, 2],
        [3, 4],
      ],
    },
    output: 'float32 [2, 4] 9 1 2 9 9 3 4 9',
  },
  averagePool2d: {
    arguments: 'input, { windowDimensions: [2, 2] }',
    operands: {
      input: [
        [
          [
            [1, 2, 3],
            [4, 5, 6],
            [7, 8, 9],
          ],
        ],
      ],
    },
    output: 'float32 [1, 1, 2, 2] 3 4 6 7',
  },
  l2Pool2d: { arguments: 'input, { windowDimensions: [1, 2], strides: [1, 2] }', operands: { input: [[[[3, 4, 6, 8]]]] }, output: 'float32 [1, 1, 1, 2] 5 10' },
  maxPool2d: {
    arguments: 'input, { windowDimensions: [2, 2] }',
    operands: {
      input: [
        [
          [
            [1, 2, 3],
            [4, 5, 6],
            [7, 8, 9],
          ],
        ],
      ],
    },
    output: 'float32 [1, 1, 2, 2] 5 6 8 9',
  },
  prelu: { arguments: 'input, slope', operands: { input: [-4, 0, 4], slope: [0.25] }, output: 'float32 [3] -1 0 4' },
  reduceL1: {
    arguments: 'input, { axes: [1] }',
    operands: {
      input: [
        [1, 0, -1],
        [-2, 3, 2],
      ],
    },
    output: 'float32 [2] 2 7',
  },
  reduceL2: {
    arguments: 'input, { axes: [1] }',
    operands: {
      input: [
        [3, 4],
        [6, 8],
      ],
    },
    output: 'float32 [2] 5 10',
  },
  reduceLogSum: {
    arguments: 'input, { axes: [1] }',
    operands: {
      input: [
        [0.25, 0.75],
        [1, 9],
      ],
    },
    output: 'float32 [2] 0 2.30258…',
  },
  reduceLogSumExp: {
    arguments: 'input, { axes: [1] }',
    operands: {
      input: [
        [0, 0],
        [100, 100],
      ],
    },
    output: 'float32 [2] 0.69314… 100.69314…',
  },
  reduceMax: {
    arguments: 'input, { axes: [1] }',
    operands: {
      input: [
        [1, 0, -1],
        [-2, 3, 2],
      ],
    },
    output: 'float32 [2] 1 3',
  },
  reduceMean: {
    arguments: 'input, { axes: [1] }',
    operands: {
      input: [
        [1, 0, -1],
        [-2, 3, 2],
      ],
    },
    output: 'float32 [2] 0 1',
  },
  reduceMin: {
    arguments: 'input, { axes: [1] }',
    operands: {
      input: [
        [1, 0, -1],
        [-2, 3, 2],
      ],
    },
    output: 'float32 [2] -1 -2',
  },
  reduceProduct: {
    arguments: 'input, { axes: [1] }',
    operands: {
      input: [
        [1, 2],
        [3, 4],
      ],
    },
    output: 'float32 [2] 2 12',
  },
  reduceSum: {
    arguments: 'input, { axes: [1], keepDimensions: true }',
    operands: {
      input: [
        [1, 0, -1],
        [-2, 3, 2],
      ],
    },
    output: 'float32 [2, 1] 0 3',
  },
  reduceSumSquare: {
    arguments: 'input, { axes: [1] }',
    operands: {
      input: [
        [1, 2],
        [3, 4],
      ],
    },
    output: 'float32 [2] 5 25',
  },
  relu: { arguments: 'input', operands: { input: [-1.5, 0, 2] }, output: 'float32 [3] 0 0 2' },
  resample2d: { arguments: 'input, { sizes: [2, 4] }', operands: { input: [[[[1, 2]]]] }, output: 'float32 [1, 1, 2, 4] 1 1 2 2 1 1 2 2' },
  reshape: {
    arguments: 'input, [3, 2]',
    operands: {
      input: [
        [1, 2, 3],
        [4, 5, 6],
      ],
    },
    output: 'float32 [3, 2] 1 2 3 4 5 6',
  },
  reverse: {
    arguments: 'input, { axes: [1] }',
    operands: {
      input: [
        [1, 2],
        [3, 4],
      ],
    },
    output: 'float32 [2, 2] 2 1 4 3',
  },
  scatterElements: {
    arguments: 'input, indices, updates, { axis: 1 }',
    operands: {
      input: [
        [1, 2],
        [3, 4],
      ],
      indices: int32([[1], [0]]),
      updates: [[20], [30]],
    },
    output: 'float32 [2, 2] 1 20 30 4',
  },
  scatterND: {
    arguments: 'input, indices, updates',
    operands: { input: [1, 2, 3, 4], indices: int32([[3], [0]]), updates: [40, 10] },
    output: 'float32 [4] 10 2 3 40',
  },
  sigmoid: { arguments: 'input', operands: { input: [-1, 0, 1] }, output: 'float32 [3] 0.26894… 0.5 0.73105…' },
  slice: {
    arguments: 'input, [0, 1], [2, 2]',
    operands: {
      input: [
        [1, 2, 3],
        [4, 5, 6],
      ],
    },
    output: 'float32 [2, 2] 2 3 5 6',
  },
  softmax: {
    arguments: 'input, 1',
    operands: {
      input: [
        [1, 1],
        [0, 1000],
      ],
    },
    output: 'float32 [2, 2] 0.5 0.5 0 1',
  },
  softplus: { arguments: 'input', operands: { input: [0, 100] }, output: 'float32 [2] 0.69314… 100' },
  softsign: { arguments: 'input', operands: { input: [-1, 0, 3] }, output: 'float32 [3] -0.5 0 0.75' },
  split: {
    arguments: 'input, [1, 2], { axis: 1 }',
    operands: {
      input: [
        [1, 2, 3],
        [4, 5, 6],
      ],
    },
    list: { first: 'float32 [2, 1] 1 4', second: 'float32 [2, 2] 2 3 5 6' },
  },
  tanh: { arguments: 'input', operands: { input: [-1, 0, 1] }, output: 'float32 [3] -0.76159… 0 0.76159…' },
  tile: {
    arguments: 'input, [1, 2]',
    operands: {
      input: [
        [1, 2],
        [3, 4],
      ],
    },
    output: 'float32 [2, 4] 1 2 1 2 3 4 3 4',
  },
  transpose: {
    arguments: 'input',
    operands: {
      input: [
        [1, 2, 3],
        [4, 5, 6],
      ],
    },
    output: 'float32 [3, 2] 1 4 2 5 3 6',
  },
  triangular: {
    arguments: 'input, { upper: false }',
    operands: {
      input: [
        [1, 2],
        [3, 4],
      ],
    },
    output: 'float32 [2, 2] 1 0 3 4',
  },
  where: {
    arguments: 'condition, trueValue, falseValue',
    operands: { condition: uint8([1, 0, 1]), trueValue: [1, 2, 3], falseValue: [-1, -2, -3] },
    output: 'float32 [3] 1 -2 3',
  },
};

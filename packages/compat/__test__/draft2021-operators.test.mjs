// Every operator of the draft of 2021, in the forms that it had then, against formulas in double precision.

import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { exception } from '../../../__test__/lib/exceptions.mjs';
import {
  assertClose,
  at,
  convolution,
  draft2021,
  evaluate2021,
  gruStep,
  indices,
  matrixProduct,
  mean,
  numbers,
  permuted,
  pooling,
  product,
  require,
  sum,
  transposedConvolution,
} from './helpers.mjs';

const { ACTIVATIONS, operators } = require('../lib/draft2021/idl.js');

const A = numbers(6, 1);
const B = numbers(6, 2);
const POSITIVE = A.map((value) => Math.fround(Math.abs(value) + 0.5));
const IMAGE = numbers(2 * 4 * 5 * 6, 3);
const IMAGE_SHAPE = [2, 4, 5, 6];
const FILTER = numbers(6 * 4 * 3 * 3, 4);
const FILTER_SHAPE = [6, 4, 3, 3];

const binary = (name, formula) => ({
  [name]: [
    ['of two matrices', (b, of) => b[name](of(POSITIVE, [2, 3]), of(B, [2, 3])), [POSITIVE.map((value, i) => formula(value, B[i]))]],
    ['with a number', (b, of) => b[name](of(POSITIVE, [2, 3]), b.constant(2)), [POSITIVE.map((value) => formula(value, 2))]],
  ],
});

const unary = (name, formula, values = A) => ({
  [name]: [['of a matrix', (b, of) => b[name](of(values, [2, 3])), [values.map(formula)]]],
});

/** A convolution in each pair of layouts; filters are permuted from oihw. */
const LAYOUTS = { oihw: [0, 1, 2, 3], hwio: [2, 3, 1, 0], ohwi: [0, 2, 3, 1], ihwo: [1, 2, 3, 0] };
const TO_NHWC = [0, 2, 3, 1];
const arrange = (shape, permutation) => permutation.map((axis) => shape[axis]);

function convolutionCases() {
  const outputShape = [2, 6, 3, 3];
  const options = { padding: [1, 1, 0, 1], strides: [2, 2] };
  const expected = convolution(IMAGE, IMAGE_SHAPE, FILTER, FILTER_SHAPE, {
    begin: [1, 0],
    strides: [2, 2],
    outputShape,
  });
  const cases = Object.entries(LAYOUTS).flatMap(([filterLayout, permutation]) => [
    [
      `nchw ${filterLayout}`,
      (b, of) =>
        b.conv2d(of(IMAGE, IMAGE_SHAPE), of(permuted(FILTER, FILTER_SHAPE, permutation), arrange(FILTER_SHAPE, permutation)), { ...options, filterLayout }),
      [expected],
    ],
    [
      `nhwc ${filterLayout}`,
      (b, of) =>
        b.conv2d(
          of(permuted(IMAGE, IMAGE_SHAPE, TO_NHWC), arrange(IMAGE_SHAPE, TO_NHWC)),
          of(permuted(FILTER, FILTER_SHAPE, permutation), arrange(FILTER_SHAPE, permutation)),
          { ...options, filterLayout, inputLayout: 'nhwc' },
        ),
      [permuted(expected, outputShape, TO_NHWC)],
    ],
  ]);
  const same = (autoPad, begin, strides, dilations, outputSize) => [
    `autoPad ${autoPad}, strides ${strides}, dilations ${dilations}`,
    (b, of) =>
      b.conv2d(of(IMAGE, IMAGE_SHAPE), of(FILTER, FILTER_SHAPE), {
        autoPad,
        strides,
        dilations,
        padding: [9, 9, 9, 9],
      }),
    [
      convolution(IMAGE, IMAGE_SHAPE, FILTER, FILTER_SHAPE, {
        begin,
        strides,
        dilations,
        outputShape: [2, 6, ...outputSize],
      }),
    ],
  ];
  const grouped = numbers(4 * 2 * 2 * 2, 5);
  return [
    ...cases,
    same('same-upper', [1, 1], [1, 1], [1, 1], [5, 6]),
    // Height 5: ceil(5 / 2) = 3 outputs reach over 7 elements, 2 to add. Width 6: 3 outputs reach over 7, 1 to add.
    same('same-upper', [1, 0], [2, 2], [1, 1], [3, 3]),
    same('same-lower', [1, 1], [2, 2], [1, 1], [3, 3]),
    same('same-upper', [2, 2], [1, 1], [2, 2], [5, 6]),
    [
      'in two groups',
      (b, of) => b.conv2d(of(IMAGE, IMAGE_SHAPE), of(grouped, [4, 2, 2, 2]), { groups: 2 }),
      [convolution(IMAGE, IMAGE_SHAPE, grouped, [4, 2, 2, 2], { begin: [0, 0], groups: 2, outputShape: [2, 4, 4, 5] })],
    ],
  ];
}

function transposedCases() {
  const transposed = (name, options, { w = FILTER, wShape = FILTER_SHAPE, filterLayout = 'oihw', begin, outputShape }) => [
    `transposed, ${name}`,
    (b, of) =>
      b.conv2d(of(IMAGE, IMAGE_SHAPE), of(permuted(w, wShape, LAYOUTS[filterLayout]), arrange(wShape, LAYOUTS[filterLayout])), {
        transpose: true,
        filterLayout,
        ...options,
      }),
    [
      transposedConvolution(IMAGE, IMAGE_SHAPE, w, wShape, {
        groups: options.groups,
        strides: options.strides ?? [1, 1],
        begin,
        outputShape,
      }),
    ],
  ];
  const grouped = numbers(6 * 2 * 3 * 3, 6);
  return [
    ...Object.keys(LAYOUTS).map((filterLayout) => transposed(filterLayout, {}, { filterLayout, begin: [0, 0], outputShape: [2, 6, 7, 8] })),
    transposed('outputPadding', { strides: [2, 3], padding: [1, 1, 1, 1], outputPadding: [1, 2] }, { begin: [1, 1], outputShape: [2, 6, 10, 18] }),
    transposed('outputSizes', { strides: [2, 3], padding: [1, 1, 1, 1], outputSizes: [10, 17] }, { begin: [1, 1], outputShape: [2, 6, 10, 17] }),
    // 2 * (5 - 1) + 3 - 10 = 1 to cut off, 2 * (6 - 1) + 3 - 12 = 1.
    transposed('same-upper', { strides: [2, 2], autoPad: 'same-upper' }, { begin: [0, 0], outputShape: [2, 6, 10, 12] }),
    transposed('same-lower', { strides: [2, 2], autoPad: 'same-lower' }, { begin: [1, 1], outputShape: [2, 6, 10, 12] }),
    transposed('in two groups', { groups: 2 }, { w: grouped, wShape: [6, 2, 3, 3], begin: [0, 0], outputShape: [2, 6, 7, 8] }),
  ];
}

function convTranspose2dCases() {
  const layouts = { iohw: [1, 0, 2, 3], hwoi: [2, 3, 0, 1], ohwi: [0, 2, 3, 1] };
  const filter = (of, filterLayout) => of(permuted(FILTER, FILTER_SHAPE, layouts[filterLayout]), arrange(FILTER_SHAPE, layouts[filterLayout]));
  const expected = (begin, strides, outputShape) => transposedConvolution(IMAGE, IMAGE_SHAPE, FILTER, FILTER_SHAPE, { strides, begin, outputShape });
  /** @type {[string, object, number[], number[], number[]][]} */
  const options = [
    ['without options', {}, [0, 0], [1, 1], [2, 6, 7, 8]],
    ['outputPadding', { strides: [2, 3], padding: [1, 1, 1, 1], outputPadding: [1, 2] }, [1, 1], [2, 3], [2, 6, 10, 18]],
    ['outputSizes', { strides: [2, 3], padding: [1, 1, 1, 1], outputSizes: [10, 17] }, [1, 1], [2, 3], [2, 6, 10, 17]],
    ['same-upper', { strides: [2, 2], autoPad: 'same-upper' }, [0, 0], [2, 2], [2, 6, 10, 12]],
    ['same-lower', { strides: [2, 2], autoPad: 'same-lower' }, [1, 1], [2, 2], [2, 6, 10, 12]],
  ];
  const cases = options.flatMap(([name, given, begin, strides, outputShape]) => [
    ...Object.keys(layouts).map((filterLayout) => [
      `nchw ${filterLayout} ${name}`,
      (b, of) => b.convTranspose2d(of(IMAGE, IMAGE_SHAPE), filter(of, filterLayout), { ...given, filterLayout }),
      [expected(begin, strides, outputShape)],
    ]),
    [
      `nhwc ${name}`,
      (b, of) =>
        b.convTranspose2d(of(permuted(IMAGE, IMAGE_SHAPE, TO_NHWC), arrange(IMAGE_SHAPE, TO_NHWC)), filter(of, 'iohw'), { ...given, inputLayout: 'nhwc' }),
      [permuted(expected(begin, strides, outputShape), outputShape, TO_NHWC)],
    ],
  ]);
  const activated = [
    'a bias and an activation',
    (b, of) => b.convTranspose2d(of(IMAGE, IMAGE_SHAPE), filter(of, 'iohw'), { bias: of([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], [6]), activation: b.relu() }),
    [expected([0, 0], [1, 1], [2, 6, 7, 8]).map((value) => Math.max(value + 0.5, 0))],
  ];
  return [...cases, activated];
}

const pool = (name, reduce) => {
  const cases = (options, sizes) => [
    JSON.stringify(options),
    (b, of) => b[name](of(IMAGE, IMAGE_SHAPE), options),
    [pooling(IMAGE, IMAGE_SHAPE, { begin: [0, 0], strides: [1, 1], window: options.windowDimensions ?? [5, 6], ...sizes }, reduce)],
  ];
  const nhwc = pooling(IMAGE, IMAGE_SHAPE, { window: [3, 2], begin: [1, 0], strides: [2, 2], outputShape: [2, 4, 3, 3] }, reduce);
  return {
    [name]: [
      cases({}, { outputShape: [2, 4, 1, 1] }),
      cases({ windowDimensions: [2, 3], padding: [1, 0, 1, 1], strides: [2, 1] }, { begin: [1, 1], strides: [2, 1], outputShape: [2, 4, 3, 6] }),
      cases({ windowDimensions: [2, 2], strides: [2, 2], roundingType: 'ceil' }, { strides: [2, 2], outputShape: [2, 4, 3, 3] }),
      cases({ windowDimensions: [2, 2], strides: [2, 2], outputSizes: [3, 3] }, { strides: [2, 2], outputShape: [2, 4, 3, 3] }),
      cases({ windowDimensions: [2, 2], autoPad: 'same-upper' }, { outputShape: [2, 4, 5, 6] }),
      cases({ windowDimensions: [2, 2], autoPad: 'same-lower', strides: [2, 2] }, { begin: [1, 0], strides: [2, 2], outputShape: [2, 4, 3, 3] }),
      [
        'nhwc same-upper',
        (b, of) =>
          b[name](of(permuted(IMAGE, IMAGE_SHAPE, TO_NHWC), arrange(IMAGE_SHAPE, TO_NHWC)), {
            windowDimensions: [3, 2],
            strides: [2, 2],
            autoPad: 'same-upper',
            layout: 'nhwc',
          }),
        [permuted(nhwc, [2, 4, 3, 3], TO_NHWC)],
      ],
    ],
  };
};

const CUBE = numbers(24, 7).map((value) => Math.fround(Math.abs(value) + 0.1));
const CUBE_SHAPE = [2, 3, 4];

/** The elements of a cube that fall together when axes are reduced. */
function reduced(axes, reduce) {
  const kept = CUBE_SHAPE.map((size, axis) => (axes.includes(axis) ? 1 : size));
  const inner = CUBE_SHAPE.map((size, axis) => (axes.includes(axis) ? size : 1));
  return Array.from(indices(kept), (start) =>
    reduce(
      Array.from(indices(inner), (step) =>
        at(
          CUBE,
          CUBE_SHAPE,
          start.map((i, axis) => i + step[axis]),
        ),
      ),
    ),
  );
}

const reduction = (name, reduce) => ({
  [name]: [
    ['over everything', (b, of) => b[name](of(CUBE, CUBE_SHAPE)), [reduced([0, 1, 2], reduce)]],
    ['axes null', (b, of) => b[name](of(CUBE, CUBE_SHAPE), { axes: null }), [reduced([0, 1, 2], reduce)]],
    ['axis -1', (b, of) => b[name](of(CUBE, CUBE_SHAPE), { axes: [-1] }), [reduced([2], reduce)]],
    // A matrix product tells that the dimensions were kept.
    [
      'axes -2 and 0, kept',
      (b, of) => b.matmul(of([1, 2, 3], [1, 3, 1]), b[name](of(CUBE, CUBE_SHAPE), { axes: [-2, 0], keepDimensions: true })),
      [[1, 2, 3].flatMap((factor) => reduced([0, 1], reduce).map((value) => factor * value))],
    ],
  ],
});

/** Interpolation in one dimension at the centres of elements. */
function scaled(values, shape, axis, size, factor, mode) {
  const target = shape.map((old, i) => (i === axis ? size : old));
  const get = (index, place) =>
    at(
      values,
      shape,
      index.map((i, k) => (k === axis ? Math.min(Math.max(place, 0), shape[axis] - 1) : i)),
    );
  return Array.from(indices(target), (index) => {
    const place = (index[axis] + 0.5) / factor - 0.5;
    if (mode === 'nearest-neighbor') return get(index, Math.ceil(place - 0.5));
    const low = Math.floor(place);
    return get(index, low) * (1 - (place - low)) + get(index, low + 1) * (place - low);
  });
}

/** Interpolation in all dimensions, one after the other. */
function resampled(values, shape, factors, mode) {
  let current = { values, shape };
  factors.forEach((factor, axis) => {
    const size = Math.floor(shape[axis] * factor);
    current = {
      values: scaled(current.values, current.shape, axis, size, factor, mode),
      shape: current.shape.map((old, i) => (i === axis ? size : old)),
    };
  });
  return current.values;
}

const SMALL_SHAPE = [2, 4, 3, 2];
const SMALL = IMAGE.slice(0, product(SMALL_SHAPE));

const resampling = (mode, factors) => [
  `${mode} by ${factors}`,
  (b, of) => b.resample(of(SMALL, SMALL_SHAPE), { mode, scales: factors }),
  [resampled(SMALL, SMALL_SHAPE, factors, mode)],
];

/** A GRU of two steps, a batch of one, three inputs and two hidden values. */
const GRU = {
  x: numbers(6, 8),
  hidden: numbers(2, 9),
  weight: numbers(18, 10),
  recurrent: numbers(12, 11),
  bias: numbers(6, 12),
  recurrentBias: numbers(6, 13),
};
const gruSteps = (order, parts = GRU) => {
  let { hidden } = parts;
  return order.map((step) => {
    hidden = gruStep({ ...parts, x: parts.x.slice(step * 3, step * 3 + 3), hidden, size: 2 });
    return hidden;
  });
};
/** @type {(b: any, of: any, directions?: number) => [any[], object]} */
const gruOperands = (b, of, directions = 1) => {
  const repeat = (values) => Array.from({ length: directions }, () => values).flat();
  return [
    [of(GRU.x, [2, 1, 3]), of(repeat(GRU.weight), [directions, 6, 3]), of(repeat(GRU.recurrent), [directions, 6, 2]), 2, 2],
    {
      bias: of(repeat(GRU.bias), [directions, 6]),
      recurrentBias: of(repeat(GRU.recurrentBias), [directions, 6]),
      initialHiddenState: of(repeat(GRU.hidden), [directions, 1, 2]),
    },
  ];
};
/** Weights in the order rzn from those in the order zrn. */
const toRzn = (values, perGate) => [...values.slice(perGate, 2 * perGate), ...values.slice(0, perGate), ...values.slice(2 * perGate)];

const normalised = (values, average, variance, epsilon) => values.map((value) => (value - average) / Math.sqrt(variance + epsilon));
const variance = (values) => mean(values.map((value) => (value - mean(values)) ** 2));

/** Forms of each operator: what it is, the graph, and the results. */
/** @type {Record<string, any[][]>} */
const CASES = {
  batchNormalization: [
    [
      'along axis 1, with scale and bias',
      (b, of) =>
        b.batchNormalization(of(CUBE, CUBE_SHAPE), of([0.1, 0.2, 0.3], [3]), of([1, 2, 3], [3]), {
          scale: of([1, -1, 2], [3]),
          bias: of([5, 6, 7], [3]),
        }),
      [
        CUBE.map((value, i) => {
          const c = Math.floor(i / 4) % 3;
          return ((value - (c + 1) / 10) / Math.sqrt(c + 1 + 1e-5)) * [1, -1, 2][c] + 5 + c;
        }),
      ],
    ],
    [
      'along the last axis, counted from the end',
      (b, of) =>
        b.batchNormalization(of(CUBE, CUBE_SHAPE), of([1, 2, 3, 4], [4]), of([4, 3, 2, 1], [4]), {
          axis: -1,
          epsilon: 0.5,
        }),
      [CUBE.map((value, i) => (value - ((i % 4) + 1)) / Math.sqrt(4 - (i % 4) + 0.5))],
    ],
  ],
  clamp: [
    ['without limits', (b, of) => b.clamp(of(A, [2, 3])), [A]],
    ['from below', (b, of) => b.clamp(of(A, [2, 3]), { minValue: b.constant(-0.25) }), [A.map((value) => Math.max(value, -0.25))]],
    [
      'from above, by row',
      (b, of) => b.clamp(of(A, [2, 3]), { maxValue: of([0.1, -0.1], [2, 1]) }),
      [A.map((value, i) => Math.min(value, i < 3 ? Math.fround(0.1) : Math.fround(-0.1)))],
    ],
    ['both, the upper limit wins', (b, of) => b.clamp(of(A, [2, 3]), { minValue: b.constant(0.5), maxValue: b.constant(0.25) }), [A.map(() => 0.25)]],
  ],
  concat: [
    ['axis 0', (b, of) => b.concat([of(A, [2, 3]), of(B.slice(0, 3), [1, 3])], 0), [[...A, ...B.slice(0, 3)]]],
    ['axis -1', (b, of) => b.concat([of(A, [2, 3]), of(B, [2, 3])], -1), [[...A.slice(0, 3), ...B.slice(0, 3), ...A.slice(3), ...B.slice(3)]]],
  ],
  conv2d: [...convolutionCases(), ...transposedCases()],
  convTranspose2d: convTranspose2dCases(),
  ...binary('add', (a, b) => a + b),
  ...binary('sub', (a, b) => a - b),
  ...binary('mul', (a, b) => a * b),
  ...binary('div', (a, b) => a / b),
  ...binary('max', Math.max),
  ...binary('min', Math.min),
  ...binary('pow', Math.pow),
  ...unary('abs', Math.abs),
  ...unary('ceil', Math.ceil),
  ...unary('cos', Math.cos),
  ...unary('exp', Math.exp),
  ...unary('floor', Math.floor),
  ...unary('hardSwish', (value) => (value * Math.min(Math.max(value + 3, 0), 6)) / 6),
  ...unary('log', Math.log, POSITIVE),
  ...unary('neg', (value) => -value),
  ...unary('relu', (value) => Math.max(value, 0)),
  ...unary('sigmoid', (value) => 1 / (1 + Math.exp(-value))),
  ...unary('sin', Math.sin),
  ...unary('tan', Math.tan),
  ...unary('tanh', Math.tanh),
  gemm: [
    ['plain', (b, of) => b.gemm(of(A, [2, 3]), of(B, [3, 2])), [matrixProduct(A, [2, 3], B, [3, 2])]],
    [
      'transposed, scaled, with a row to add',
      (b, of) =>
        b.gemm(of(permuted(A, [2, 3], [1, 0]), [3, 2]), of(permuted(B, [3, 2], [1, 0]), [2, 3]), {
          aTranspose: true,
          bTranspose: true,
          alpha: 0.5,
          beta: 2,
          c: of([1, -1], [2]),
        }),
      [matrixProduct(A, [2, 3], B, [3, 2]).map((value, i) => 0.5 * value + (i % 2 === 0 ? 2 : -2))],
    ],
  ],
  gru: [
    [
      'forward',
      (b, of) => {
        const [operands, options] = gruOperands(b, of);
        return b.gru(...operands, options);
      },
      [gruSteps([0, 1])[1]],
    ],
    [
      'backward, with the sequence',
      (b, of) => {
        const [operands, options] = gruOperands(b, of);
        return b.gru(...operands, { ...options, direction: 'backward', returnSequence: true });
      },
      [gruSteps([1, 0])[1], gruSteps([1, 0]).flat()],
    ],
    [
      'both directions, with the sequence',
      (b, of) => {
        const [operands, options] = gruOperands(b, of, 2);
        return b.gru(...operands, { ...options, direction: 'both', returnSequence: true });
      },
      [[...gruSteps([0, 1])[1], ...gruSteps([1, 0])[1]], [0, 1].flatMap((i) => [...gruSteps([0, 1])[i], ...gruSteps([1, 0])[i]])],
    ],
  ],
  gruCell: [
    [
      'in the order zrn',
      (b, of) =>
        b.gruCell(of(GRU.x.slice(0, 3), [1, 3]), of(GRU.weight, [6, 3]), of(GRU.recurrent, [6, 2]), of(GRU.hidden, [1, 2]), 2, {
          bias: of(GRU.bias, [6]),
          recurrentBias: of(GRU.recurrentBias, [6]),
        }),
      [gruSteps([0])[0]],
    ],
    [
      'in the order rzn',
      (b, of) =>
        b.gruCell(of(GRU.x.slice(0, 3), [1, 3]), of(toRzn(GRU.weight, 6), [6, 3]), of(toRzn(GRU.recurrent, 4), [6, 2]), of(GRU.hidden, [1, 2]), 2, {
          bias: of(toRzn(GRU.bias, 2), [6]),
          recurrentBias: of(toRzn(GRU.recurrentBias, 2), [6]),
          layout: 'rzn',
          activations: ['sigmoid', 'tanh'],
        }),
      [gruSteps([0])[0]],
    ],
  ],
  instanceNormalization: [
    [
      'nchw with scale and bias',
      (b, of) => b.instanceNormalization(of(IMAGE, IMAGE_SHAPE), { scale: of([1, 2, 3, 4], [4]), bias: of([4, 3, 2, 1], [4]) }),
      [
        Array.from({ length: 8 }, (_, i) => {
          const values = IMAGE.slice(i * 30, i * 30 + 30);
          return normalised(values, mean(values), variance(values), 1e-5).map((value) => value * ((i % 4) + 1) + 4 - (i % 4));
        }).flat(),
      ],
    ],
    [
      'nhwc',
      (b, of) =>
        b.instanceNormalization(of(permuted(IMAGE, IMAGE_SHAPE, TO_NHWC), arrange(IMAGE_SHAPE, TO_NHWC)), {
          layout: 'nhwc',
          epsilon: 0.1,
        }),
      [
        permuted(
          Array.from({ length: 8 }, (_, i) => {
            const values = IMAGE.slice(i * 30, i * 30 + 30);
            return normalised(values, mean(values), variance(values), 0.1);
          }).flat(),
          IMAGE_SHAPE,
          TO_NHWC,
        ),
      ],
    ],
  ],
  leakyRelu: [
    ['with the default', (b, of) => b.leakyRelu(of(A, [2, 3])), [A.map((value) => (value < 0 ? 0.01 * value : value))]],
    ['alpha 0.5', (b, of) => b.leakyRelu(of(A, [2, 3]), { alpha: 0.5 }), [A.map((value) => (value < 0 ? 0.5 * value : value))]],
  ],
  matmul: [
    ['of matrices', (b, of) => b.matmul(of(A, [2, 3]), of(B, [3, 2])), [matrixProduct(A, [2, 3], B, [3, 2])]],
    ['of vectors is a scalar', (b, of) => b.matmul(of(A, [6]), of(B, [6])), [[sum(A.map((value, i) => value * B[i]))]]],
    // The product is concatenated with a matrix: it has two dimensions.
    [
      'of a vector and a matrix is a row',
      (b, of) => b.concat([b.matmul(of(A.slice(0, 3), [3]), of(B, [3, 2])), of([7, 8], [1, 2])], 0),
      [[...matrixProduct(A, [1, 3], B, [3, 2]), 7, 8]],
    ],
    [
      'of a matrix and a vector is a column',
      (b, of) => b.concat([b.matmul(of(A, [2, 3]), of(B.slice(0, 3), [3])), of([7, 8], [2, 1])], 1),
      [matrixProduct(A, [2, 3], B, [3, 1]).flatMap((value, i) => [value, 7 + i])],
    ],
    [
      'of a stack and a matrix',
      (b, of) => b.matmul(of(CUBE, [2, 4, 3]), of(B, [3, 2])),
      [[0, 1].flatMap((i) => matrixProduct(CUBE.slice(i * 12, i * 12 + 12), [4, 3], B, [3, 2]))],
    ],
  ],
  pad: [
    ...['int32', 'uint8', 'float32'].map((type) => [
      `by ${type} numbers`,
      (b, of) =>
        b.pad(
          of([1, 2, 3, 4], [2, 2]),
          b.constant({ type, dimensions: [2, 2] }, new { int32: Int32Array, uint8: Uint8Array, float32: Float32Array }[type]([0, 1, 1, 0])),
          { value: 9 },
        ),
      [[9, 1, 2, 9, 3, 4, 9, 9, 9]],
    ]),
    [
      'symmetric by nothing',
      (b, of) =>
        b.pad(of([1, 2], [2]), b.constant({ type: 'int32', dimensions: [1, 2] }, new Int32Array(2)), {
          mode: 'symmetric',
        }),
      [[1, 2]],
    ],
  ],
  ...pool('averagePool2d', mean),
  ...pool('l2Pool2d', (values) => Math.hypot(...values)),
  ...pool('maxPool2d', (values) => Math.max(...values)),
  ...reduction('reduceL1', (values) => sum(values.map(Math.abs))),
  ...reduction('reduceL2', (values) => Math.hypot(...values)),
  ...reduction('reduceLogSum', (values) => Math.log(sum(values))),
  ...reduction('reduceLogSumExp', (values) => Math.log(sum(values.map(Math.exp)))),
  ...reduction('reduceMax', (values) => Math.max(...values)),
  ...reduction('reduceMean', mean),
  ...reduction('reduceMin', (values) => Math.min(...values)),
  ...reduction('reduceProduct', product),
  ...reduction('reduceSum', sum),
  ...reduction('reduceSumSquare', (values) => sum(values.map((value) => value ** 2))),
  resample: [
    resampling('nearest-neighbor', [1, 1, 2, 2]),
    resampling('linear', [1, 1, 2, 3]),
    resampling('linear', [1, 2, 1, 1]),
    resampling('linear', [2, 1, 1, 2]),
    resampling('linear', [2, 1.5, 2, 1]),
    resampling('linear', [2, 1, 2, 2]),
    resampling('linear', [2, 2, 2, 3]),
    ['neither scales nor sizes', (b, of) => b.resample(of(SMALL, SMALL_SHAPE)), [SMALL]],
    [
      'sizes in place of scales',
      (b, of) => b.resample(of(SMALL, SMALL_SHAPE), { mode: 'linear', scales: [9, 9, 9, 9], sizes: [2, 4, 6, 3] }),
      [resampled(SMALL, SMALL_SHAPE, [1, 1, 2, 1.5], 'linear')],
    ],
    [
      'sizes of three dimensions',
      (b, of) => b.resample(of(SMALL, SMALL_SHAPE), { mode: 'linear', sizes: [4, 4, 6, 3] }),
      [resampled(SMALL, SMALL_SHAPE, [2, 1, 2, 1.5], 'linear')],
    ],
  ],
  resample2d: [
    ['to the same size', (b, of) => b.resample2d(of(SMALL, SMALL_SHAPE)), [SMALL]],
    [
      'nearest by scales',
      (b, of) => b.resample2d(of(SMALL, SMALL_SHAPE), { scales: [2, 3] }),
      [resampled(SMALL, SMALL_SHAPE, [1, 1, 2, 3], 'nearest-neighbor')],
    ],
    [
      'linear along other axes, to sizes in place of scales',
      (b, of) => b.resample2d(of(SMALL, SMALL_SHAPE), { mode: 'linear', axes: [0, 1], scales: [9, 9], sizes: [4, 8] }),
      [resampled(SMALL, SMALL_SHAPE, [2, 2, 1, 1], 'linear')],
    ],
  ],
  reshape: [
    ['with -1', (b, of) => b.matmul(b.reshape(of(A, [2, 3]), [3, -1]), of([1, 2], [2, 1])), [matrixProduct(A, [3, 2], [1, 2], [2, 1])]],
    ['with null', (b, of) => b.matmul(b.reshape(of(A, [2, 3]), [null, 2]), of([1, 2], [2, 1])), [matrixProduct(A, [3, 2], [1, 2], [2, 1])]],
    ['to a scalar', (b, of) => b.reshape(of([5], [1, 1]), []), [[5]]],
  ],
  slice: [
    ['of all dimensions', (b, of) => b.slice(of(CUBE, CUBE_SHAPE), [1, 0, 1], [1, 2, 3]), [[13, 14, 15, 17, 18, 19].map((i) => CUBE[i])]],
    ['from the end, and what is left', (b, of) => b.slice(of(CUBE, CUBE_SHAPE), [-1, -2, 2], [1, -1, -1]), [[18, 19, 22, 23].map((i) => CUBE[i])]],
    ['of some axes, counted from the end', (b, of) => b.slice(of(CUBE, CUBE_SHAPE), [-1, 1], [-1, 1], { axes: [-1, 0] }), [[15, 19, 23].map((i) => CUBE[i])]],
  ],
  softmax: [
    [
      'of rows',
      (b, of) => b.softmax(of(A, [2, 3])),
      [[A.slice(0, 3), A.slice(3)].flatMap((row) => row.map((value) => Math.exp(value) / sum(row.map(Math.exp))))],
    ],
  ],
  split: [
    ['into equal parts', (b, of) => b.split(of(A, [6]), 3), [A.slice(0, 2), A.slice(2, 4), A.slice(4)]],
    [
      'into sizes along axis -1',
      (b, of) => b.split(of(A, [2, 3]), [1, 2], { axis: -1 }),
      [
        [A[0], A[3]],
        [A[1], A[2], A[4], A[5]],
      ],
    ],
  ],
  squeeze: [
    // Each is concatenated with something of the rank that is expected.
    ['of all', (b, of) => b.concat([b.squeeze(of(A, [1, 6, 1])), of([7], [1])], 0), [[...A, 7]]],
    ['of one axis', (b, of) => b.concat([b.squeeze(of(A, [1, 6, 1]), { axes: [0] }), of([7], [1, 1])], 0), [[...A, 7]]],
    ['of an axis counted from the end', (b, of) => b.concat([b.squeeze(of(A, [1, 6, 1]), { axes: [-1] }), of([7], [1, 1])], 1), [[...A, 7]]],
  ],
  transpose: [
    ['to the reverse order', (b, of) => b.transpose(of(CUBE, CUBE_SHAPE)), [permuted(CUBE, CUBE_SHAPE, [2, 1, 0])]],
    ['by a permutation', (b, of) => b.transpose(of(CUBE, CUBE_SHAPE), { permutation: [1, 2, 0] }), [permuted(CUBE, CUBE_SHAPE, [1, 2, 0])]],
  ],
};

test('every operator of the draft has cases', () => {
  assert.deepEqual(Object.keys(CASES).sort(), operators.map(({ name }) => name).sort());
});

/** Operators that copy, compare and choose elements: nothing is rounded. */
const EXACT = new Set([
  'abs',
  'ceil',
  'clamp',
  'concat',
  'floor',
  'max',
  'maxPool2d',
  'min',
  'neg',
  'pad',
  'reduceMax',
  'reduceMin',
  'relu',
  'reshape',
  'slice',
  'split',
  'squeeze',
  'transpose',
]);

for (const [name, cases] of Object.entries(CASES)) {
  describe(name, () => {
    for (const [what, build, expected] of cases) {
      test(what, () => {
        const results = evaluate2021(
          build,
          expected.map(({ length }) => length),
        );
        if (EXACT.has(name)) {
          assert.deepEqual(
            results,
            expected.map((values) => values.map(Math.fround)),
          );
        } else {
          results.forEach((result, i) => assertClose(result, expected[i], `${name} ${what}, result ${i}`));
        }
      });
    }
  });
}

describe('operators without an operand', () => {
  const convolved = convolution(numbers(16, 3), [1, 1, 4, 4], numbers(4, 4), [1, 1, 2, 2], { begin: [0, 0], outputShape: [1, 1, 3, 3] });
  /** @type {Record<string, [object[], (value: number) => number]>} */
  const FORMULAS = {
    clamp: [[{ minValue: -0.5, maxValue: 0.25 }], (value) => Math.min(Math.max(value, -0.5), 0.25)],
    hardSwish: [[], (value) => (value * Math.min(Math.max(value + 3, 0), 6)) / 6],
    leakyRelu: [[{ alpha: 0.5 }], (value) => (value < 0 ? 0.5 * value : value)],
    relu: [[], (value) => Math.max(value, 0)],
    sigmoid: [[], (value) => 1 / (1 + Math.exp(-value))],
    tanh: [[], Math.tanh],
  };

  test('are all those of the draft', () => {
    assert.deepEqual(Object.keys(FORMULAS), ACTIVATIONS);
  });

  for (const [name, [options, formula]] of Object.entries(FORMULAS)) {
    test(`${name} is applied by conv2d, after the bias, and by batchNormalization`, () => {
      const [result] = evaluate2021(
        (b, of) => {
          const activation = b[name](...options);
          assert.ok(activation instanceof draft2021.MLOperator);
          return b.conv2d(of(numbers(16, 3), [1, 1, 4, 4]), of(numbers(4, 4), [1, 1, 2, 2]), { bias: of([0.5], [1]), activation });
        },
        [9],
      );
      assertClose(
        result,
        convolved.map((value) => formula(value + 0.5)),
        name,
      );
      const [normalizedResult] = evaluate2021(
        (b, of) => b.batchNormalization(of(A, [2, 3]), of([0, 0, 0], [3]), of([1, 1, 1], [3]), { epsilon: 0, activation: b[name](...options) }),
        [6],
      );
      assertClose(normalizedResult, A.map(formula), name);
    });

    test(`${name} with an operand and the same options is the operator`, () => {
      const [result] = evaluate2021((b, of) => b[name](of(A, [6]), ...options), [6]);
      assertClose(result, A.map(formula), name);
    });
  }

  test('of defaults: clamp() and leakyRelu()', () => {
    const [results, others] = [(b) => b.clamp(), (b) => b.leakyRelu()].map((activation) =>
      evaluate2021((b, of) => b.batchNormalization(of(A, [2, 3]), of([0, 0, 0], [3]), of([1, 1, 1], [3]), { epsilon: 0, activation: activation(b) }), [6]),
    );
    assertClose(results[0], A);
    assertClose(
      others[0],
      A.map((value) => (value < 0 ? 0.01 * value : value)),
    );
  });

  test('relu, sigmoid and tanh are activations of recurrent networks', () => {
    const gru = (activations) =>
      evaluate2021(
        (b, of) =>
          b.gruCell(of(GRU.x.slice(0, 3), [1, 3]), of(GRU.weight, [6, 3]), of(GRU.recurrent, [6, 2]), of(GRU.hidden, [1, 2]), 2, {
            activations: activations(b),
          }),
        [2],
      )[0];
    assert.deepEqual(
      gru((b) => [b.relu(), b.tanh()]),
      gru(() => ['relu', 'tanh']),
    );
    assert.deepEqual(
      gru((b) => ['sigmoid', b.sigmoid()]),
      gru(() => ['sigmoid', 'sigmoid']),
    );
    assert.throws(() => gru((b) => [b.sigmoid(), b.hardSwish()]), exception('NotSupportedError', /gruCell: options.activations\[1\] is hardSwish/));
    assert.throws(() => gru((b) => [b.sigmoid(), 'elu']), { name: 'TypeError', message: /activations\[1\] is "elu"/ });
  });

  test('of another builder, and anything else, are refused', () => {
    const other = new draft2021.MLGraphBuilder(draft2021.ml.createContext());
    const normalized = (activation) =>
      evaluate2021((b, of) => b.batchNormalization(of(A, [2, 3]), of([0, 0, 0], [3]), of([1, 1, 1], [3]), { activation: activation(b) }), [6]);
    assert.throws(() => normalized(() => other.relu()), { name: 'TypeError', message: /batchNormalization: options.activation belongs to another builder/ });
    assert.throws(() => normalized(() => 'relu'), { name: 'TypeError', message: /options.activation is "relu", expected an MLOperator/ });
    assert.throws(() => normalized((b) => b.add(b.relu(), b.relu())), { name: 'TypeError', message: /expected an MLOperand/ });
    assert.throws(() => other.clamp({ minValue: 'low' }), { name: 'TypeError', message: /minValue/ });
    assert.throws(() => other.relu(5), { name: 'TypeError', message: /expected an MLOperand/ });
  });
});

describe('data types', () => {
  for (const type of ['int32', 'uint32']) {
    test(`${type} in and out, with a constant of that type`, () => {
      const [result] = evaluate2021((b, of) => b.add(of([1, 2, 3], [3], type), b.constant(40, type)), [3], type);
      assert.deepEqual(result, [41, 42, 43]);
    });
  }
  for (const type of ['int8', 'uint8']) {
    test(`${type} in and out`, () => {
      assert.deepEqual(
        evaluate2021((b, of) => b.reshape(of([1, 2, 3], [3], type), [3, 1]), [3], type),
        [[1, 2, 3]],
      );
    });
  }

  test('float16 as bit patterns', () => {
    const builder = new draft2021.MLGraphBuilder(draft2021.ml.createContext());
    const x = builder.input('x', { type: 'float16', dimensions: [2] });
    const graph = builder.build({
      y: builder.add(x, builder.constant({ type: 'float16', dimensions: [2] }, Uint16Array.of(0x3c00, 0x4000))),
    });
    const y = new Uint16Array(2);
    graph.compute({ x: Uint16Array.of(0x3c00, 0x3c00) }, { y }); // 1 and 1, to which 1 and 2 are added
    assert.deepEqual([...y], [0x4000, 0x4200]);
  });
});

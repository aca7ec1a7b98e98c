// The examples of the draft of 2021 as programs: those of the sections "Examples" and "MLGraph", and those that say
// what an operator computes by other operators. Where the draft has a slip of the pen, the line says what it is.

import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { assertClose, draft2021, evaluate2021, gruStep, matrixProduct, mean, numbers, sum } from './helpers.mjs';

const { MLGraphBuilder } = draft2021;
const navigator = { ml: draft2021.ml };

test('section 7: two additions and a product', () => {
  const context = navigator.ml.createContext({ powerPreference: 'low-power' });

  const TENSOR_DIMS = [1, 2, 2, 2];
  const TENSOR_SIZE = 8;
  const builder = new MLGraphBuilder(context);
  const desc = { type: 'float32', dimensions: TENSOR_DIMS };
  const constantBuffer1 = new Float32Array(TENSOR_SIZE).fill(0.5);
  const constant1 = builder.constant(desc, constantBuffer1);
  const input1 = builder.input('input1', desc);
  const constantBuffer2 = new Float32Array(TENSOR_SIZE).fill(0.5);
  const constant2 = builder.constant(desc, constantBuffer2);
  const input2 = builder.input('input2', desc);
  const intermediateOutput1 = builder.add(constant1, input1);
  const intermediateOutput2 = builder.add(constant2, input2);
  const output = builder.mul(intermediateOutput1, intermediateOutput2);

  const graph = builder.build({ output: output });

  const inputBuffer1 = new Float32Array(TENSOR_SIZE).fill(1);
  const inputBuffer2 = new Float32Array(TENSOR_SIZE).fill(1);
  const outputBuffer = new Float32Array(TENSOR_SIZE);
  const inputs = { input1: inputBuffer1, input2: inputBuffer2 };
  const outputs = { output: outputBuffer };
  graph.compute(inputs, outputs);

  assert.equal('Output value: ' + outputBuffer, 'Output value: 2.25,2.25,2.25,2.25,2.25,2.25,2.25,2.25');
});

test('section 6.7.1: computation with dynamic input dimensions', () => {
  const sizeOfShape = (array) => array.reduce((accumulator, currentValue) => accumulator * currentValue);
  const context = navigator.ml.createContext();

  const builder = new MLGraphBuilder(context);
  const descA = { type: 'float32', dimensions: [-1, 4] };
  const a = builder.input('a', descA);
  const descB = { type: 'float32', dimensions: [4, -1] };
  const b = builder.input('b', descB);
  const c = builder.matmul(a, b);
  const graph = builder.build({ c: c });

  function allocateAndCompute(shapeA, shapeB, shapeC) {
    const bufferA = new Float32Array(sizeOfShape(shapeA)).fill(0.5);
    const bufferB = new Float32Array(sizeOfShape(shapeB)).fill(0.5);
    const bufferC = new Float32Array(sizeOfShape(shapeC));
    const inputs = {
      a: { resource: bufferA, dimensions: shapeA },
      b: { resource: bufferB, dimensions: shapeB },
    };
    const outputs = { c: bufferC };
    graph.compute(inputs, outputs);
    return bufferC;
  }

  // Each element is the sum of 4 products of 0.5 and 0.5.
  assert.deepEqual(Array.from(allocateAndCompute([3, 4], [4, 3], [3, 3])), new Array(9).fill(1));
  assert.deepEqual(Array.from(allocateAndCompute([4, 4], [4, 4], [4, 4])), new Array(16).fill(1));
  assert.deepEqual(Array.from(allocateAndCompute([5, 4], [4, 5], [5, 5])), new Array(25).fill(1));
});

test('section 6.7.1: computation with optional outputs', () => {
  const sizeOfShape = (array) => array.reduce((accumulator, currentValue) => accumulator * currentValue);
  const context = navigator.ml.createContext();

  const builder = new MLGraphBuilder(context);
  const descA = { type: 'float32', dimensions: [3, 4] };
  const a = builder.input('a', descA);
  const descB = { type: 'float32', dimensions: [4, 3] };
  const bufferB = new Float32Array(sizeOfShape(descB.dimensions)).fill(0.5);
  const b = builder.constant(descB, bufferB);
  const descC = { type: 'float32', dimensions: [3, 3] };
  const bufferC = new Float32Array(sizeOfShape(descC.dimensions)).fill(1);
  const c = builder.constant(descC, bufferC);
  const d = builder.matmul(a, b);
  const e = builder.add(d, c);
  const graph = builder.build({ d: d, e: e });

  const bufferA = new Float32Array(sizeOfShape(descA.dimensions)).fill(0.5);
  const inputs = { a: bufferA };

  const bufferD = new Float32Array(sizeOfShape([3, 3]));
  graph.compute(inputs, { d: bufferD });
  assert.deepEqual(Array.from(bufferD), new Array(9).fill(1));

  const bufferE = new Float32Array(sizeOfShape([3, 3]));
  graph.compute(inputs, { e: bufferE });
  assert.deepEqual(Array.from(bufferE), new Array(9).fill(2));
});

test('section 6.6.13: the modes of pad', () => {
  /** @param {object} [options] */
  const pad = (options) =>
    evaluate2021(
      (builder) => {
        const input = builder.constant({ type: 'float32', dimensions: [2, 3] }, new Float32Array([1, 2, 3, 4, 5, 6]));
        const padding = builder.constant({ type: 'float32', dimensions: [2, 2] }, new Float32Array([1, 1, 2, 2]));
        return builder.pad(input, padding, options);
      },
      [28],
    )[0];

  assert.deepEqual(
    pad(),
    [
      [0, 0, 0, 0, 0, 0, 0],
      [0, 0, 1, 2, 3, 0, 0],
      [0, 0, 4, 5, 6, 0, 0],
      [0, 0, 0, 0, 0, 0, 0],
    ].flat(),
  );
  assert.deepEqual(
    pad({ mode: 'edge' }),
    [
      [1, 1, 1, 2, 3, 3, 3],
      [1, 1, 1, 2, 3, 3, 3],
      [4, 4, 4, 5, 6, 6, 6],
      [4, 4, 4, 5, 6, 6, 6],
    ].flat(),
  );
  assert.deepEqual(
    pad({ mode: 'reflection' }),
    [
      [6, 5, 4, 5, 6, 5, 4],
      [3, 2, 1, 2, 3, 2, 1],
      [6, 5, 4, 5, 6, 5, 4],
      [3, 2, 1, 2, 3, 2, 1],
    ].flat(),
  );
  assert.deepEqual(
    pad({ mode: 'symmetric' }),
    [
      [2, 1, 1, 2, 3, 3, 2],
      [2, 1, 1, 2, 3, 3, 2],
      [5, 4, 4, 5, 6, 6, 5],
      [5, 4, 4, 5, 6, 6, 5],
    ].flat(),
  );
});

test("section 6.6.14: 'global' max pooling", () => {
  const values = numbers(2 * 3 * 4);
  const [result] = evaluate2021((builder, of) => builder.maxPool2d(of(values, [1, 2, 3, 4])), [2]);
  assert.deepEqual(result, [Math.max(...values.slice(0, 12)), Math.max(...values.slice(12))]);
});

/** The decompositions of the draft, by the operator whose section has them. */
const emulations = {
  batchNormalization(builder, input, mean, variance, options) {
    const shape = [1, -1, 1, 1];
    return builder.add(
      builder.mul(
        builder.reshape(options.scale, shape),
        builder.div(
          builder.sub(input, builder.reshape(mean, shape)),
          builder.pow(builder.add(builder.reshape(variance, shape), builder.constant(options.epsilon)), builder.constant(0.5)),
        ),
      ),
      builder.reshape(options.bias, shape),
    );
  },

  clamp(builder, x, options) {
    if (options.minValue === undefined) {
      if (options.maxValue === undefined) {
        return x;
      } else {
        return builder.min(x, options.maxValue);
      }
    } else {
      if (options.maxValue === undefined) {
        return builder.max(x, options.minValue);
      } else {
        return builder.min(builder.max(x, options.minValue), options.maxValue);
      }
    }
  },

  relu: (builder, x) => builder.max(builder.constant(0), x),

  gemm(builder, a, b, options) {
    if (options.aTranspose) a = builder.transpose(a);
    if (options.bTranspose) b = builder.transpose(b);
    const ab = builder.matmul(builder.mul(builder.constant(options.alpha), a), b);
    const { c } = options; // the draft writes c alone
    return c ? builder.add(ab, builder.mul(builder.constant(options.beta), c)) : ab;
  },

  gru(builder, input, weight, recurrentWeight, steps, hiddenSize, options) {
    const numDirections = options.direction == 'both' ? 2 : 1;
    let hiddenState = options.initialHiddenState;

    if (!hiddenState) {
      const desc = { type: 'float32', dimensions: [numDirections, 1, hiddenSize] };
      const totalSize = numDirections * hiddenSize;
      hiddenState = builder.constant(desc, new Float32Array(totalSize).fill(0));
    }

    let sequence = null;
    let cellWeight = [];
    let cellRecurrentWeight = [];
    let cellBias = [];
    let cellRecurrentBias = [];

    for (let slot = 0; slot < numDirections; ++slot) {
      cellWeight.push(builder.squeeze(builder.slice(weight, [slot, 0, 0], [1, -1, -1]), { axes: [0] }));
      cellRecurrentWeight.push(builder.squeeze(builder.slice(recurrentWeight, [slot, 0, 0], [1, -1, -1]), { axes: [0] }));
      // The draft has null where there is none, which is no MLOperand.
      cellBias.push(options.bias ? builder.squeeze(builder.slice(options.bias, [slot, 0], [1, -1]), { axes: [0] }) : undefined);
      cellRecurrentBias.push(options.recurrentBias ? builder.squeeze(builder.slice(options.recurrentBias, [slot, 0], [1, -1]), { axes: [0] }) : undefined);
    }

    for (let step = 0; step < steps; ++step) {
      let cellHidden = [];
      let cellOutput = null;

      for (let slot = 0; slot < numDirections; ++slot) {
        cellHidden.push(builder.squeeze(builder.slice(hiddenState, [slot, 0, 0], [1, -1, -1]), { axes: [0] }));
      }

      for (let slot = 0; slot < numDirections; ++slot) {
        let slice = slot == 1 || options.direction == 'backward' ? steps - step - 1 : step;
        let cellInput = builder.squeeze(builder.slice(input, [slice, 0, 0], [1, -1, -1]), { axes: [0] });

        let result = builder.reshape(
          builder.gruCell(cellInput, cellWeight[slot], cellRecurrentWeight[slot], cellHidden[slot], hiddenSize, {
            bias: cellBias[slot],
            recurrentBias: cellRecurrentBias[slot],
            resetAfter: options.resetAfter,
            layout: options.layout,
            activations: options.activations,
          }),
          [1, -1, hiddenSize],
        );

        cellOutput = cellOutput ? builder.concat([cellOutput, result], 0) : result;
      }

      hiddenState = cellOutput;

      if (options.returnSequence) {
        cellOutput = builder.reshape(cellOutput, [1, numDirections, -1, hiddenSize]);
        sequence = sequence ? builder.concat([sequence, cellOutput], 0) : cellOutput;
      }
    }

    return sequence ? [hiddenState, sequence] : [hiddenState];
  },

  gruCell(builder, input, weight, recurrentWeight, hiddenState, hiddenSize, options) {
    const one = builder.constant(1);
    const zero = builder.constant(0);
    const bias = (start) => (options.bias ? builder.slice(options.bias, [start], [hiddenSize]) : zero);
    const recurrentBias = (start) => (options.recurrentBias ? builder.slice(options.recurrentBias, [start], [hiddenSize]) : zero);
    const product = (state, matrix, start) => builder.matmul(state, builder.transpose(builder.slice(matrix, [start, 0], [hiddenSize, -1])));

    // update gate
    let z = builder.sigmoid(
      builder.add(builder.add(bias(0), recurrentBias(0)), builder.add(product(input, weight, 0), product(hiddenState, recurrentWeight, 0))),
    );

    // reset gate
    let r = builder.sigmoid(
      builder.add(
        builder.add(bias(hiddenSize), recurrentBias(hiddenSize)),
        builder.add(product(input, weight, hiddenSize), product(hiddenState, recurrentWeight, hiddenSize)),
      ),
    );

    // new gate
    let n;
    if (options.resetAfter) {
      n = builder.tanh(
        builder.add(
          bias(2 * hiddenSize),
          builder.add(
            product(input, weight, 2 * hiddenSize),
            builder.mul(r, builder.add(recurrentBias(2 * hiddenSize), product(hiddenState, recurrentWeight, 2 * hiddenSize))),
          ),
        ),
      );
    } else {
      n = builder.tanh(
        builder.add(
          builder.add(bias(2 * hiddenSize), recurrentBias(2 * hiddenSize)),
          builder.add(product(input, weight, 2 * hiddenSize), product(builder.mul(r, hiddenState), recurrentWeight, 2 * hiddenSize)),
        ),
      );
    }

    // compute the new hidden state
    return builder.add(builder.mul(z, hiddenState), builder.mul(n, builder.sub(one, z)));
  },

  instanceNormalization(builder, input, options) {
    const reduceOptions = { axes: [2, 3], keepDimensions: true };
    const mean = builder.reduceMean(input, reduceOptions);
    const variance = builder.reduceMean(builder.pow(builder.sub(input, mean), builder.constant(2)), reduceOptions);
    const shape = [1, -1, 1, 1];
    return builder.add(
      builder.mul(
        builder.reshape(options.scale, shape),
        builder.div(
          builder.sub(input, mean),
          // The draft adds epsilon as a number, without builder.constant().
          builder.pow(builder.add(variance, builder.constant(options.epsilon)), builder.constant(0.5)),
        ),
      ),
      builder.reshape(options.bias, shape),
    );
  },

  leakyRelu: (builder, x, options) =>
    builder.add(builder.max(builder.constant(0), x), builder.mul(builder.constant(options.alpha), builder.min(builder.constant(0), x))),

  softmax(builder, x) {
    const max_x = builder.reduceMax(x, { axes: [1], keepDimensions: true });
    const exp_x = builder.exp(builder.sub(x, max_x)); // the draft subtracts max, which it does not define
    return builder.div(exp_x, builder.reduceSum(exp_x, { axes: [1], keepDimensions: true }));
  },

  split(builder, input, splits, options) {
    const outputs = [];
    let start = 0;
    for (const size of splits) {
      outputs.push(builder.slice(input, [start], [size], { axes: [options.axis] })); // the draft writes axis for axes
      start += size;
    }
    return outputs;
  },
};

const X = numbers(2 * 3 * 2 * 2, 20);
const PAIR = [numbers(6, 21), numbers(6, 22)];
const channelOf = (i) => Math.floor(i / 4) % 3;

/** A GRU of three steps, one batch, two inputs and two hidden values, in one direction or two. */
const gru = (directions) => ({
  x: numbers(6, 30),
  weight: numbers(directions * 12, 31),
  recurrent: numbers(directions * 12, 32),
  bias: numbers(directions * 6, 33),
  recurrentBias: numbers(directions * 6, 34),
});

const gruCase = (direction, returnSequence) => {
  const directions = direction === 'both' ? 2 : 1;
  const parts = gru(directions);
  const run = (slot, isBackward) => {
    const part = (values, length) => values.slice(slot * length, (slot + 1) * length);
    const own = {
      weight: part(parts.weight, 12),
      recurrent: part(parts.recurrent, 12),
      bias: part(parts.bias, 6),
      recurrentBias: part(parts.recurrentBias, 6),
    };
    let hidden = [0, 0];
    return [0, 1, 2].map((step) => {
      const at = isBackward ? 2 - step : step;
      hidden = gruStep({ ...own, x: parts.x.slice(at * 2, at * 2 + 2), hidden, size: 2 });
      return hidden;
    });
  };
  const runs = direction === 'both' ? [run(0, false), run(1, true)] : [run(0, direction === 'backward')];
  const sequence = [0, 1, 2].flatMap((step) => runs.flatMap((steps) => steps[step]));
  const last = runs.flatMap((steps) => steps[2]);
  return [
    'gru',
    `${direction}${returnSequence ? ' with the sequence' : ''}`,
    (of) => [
      of(parts.x, [3, 1, 2]),
      of(parts.weight, [directions, 6, 2]),
      of(parts.recurrent, [directions, 6, 2]),
      3,
      2,
      {
        bias: of(parts.bias, [directions, 6]),
        recurrentBias: of(parts.recurrentBias, [directions, 6]),
        direction,
        returnSequence,
        resetAfter: true,
        layout: 'zrn',
        activations: ['sigmoid', 'tanh'],
      },
    ],
    returnSequence ? [last, sequence] : [last],
  ];
};

const cell = gru(1);
const cellArguments = (of, resetAfter) => [
  of(cell.x.slice(0, 2), [1, 2]),
  of(cell.weight, [6, 2]),
  of(cell.recurrent, [6, 2]),
  of([0.5, -0.5], [1, 2]),
  2,
  { bias: of(cell.bias, [6]), recurrentBias: of(cell.recurrentBias, [6]), resetAfter },
];

/** Operator, form, arguments and results. Results are undefined where the two only have to agree with each other. */
/** @type {any[][]} */
const CASES = [
  [
    'batchNormalization',
    'nchw',
    (of) => [of(X, [2, 3, 2, 2]), of([0.1, 0.2, 0.3], [3]), of([1, 2, 3], [3]), { scale: of([1, 2, 3], [3]), bias: of([3, 2, 1], [3]), epsilon: 1e-5 }],
    [X.map((value, i) => ((value - (channelOf(i) + 1) / 10) / Math.sqrt(channelOf(i) + 1 + 1e-5)) * (channelOf(i) + 1) + 3 - channelOf(i))],
  ],
  [
    'clamp',
    'both limits',
    (of) => [of(PAIR[0], [2, 3]), { minValue: of([-0.5], []), maxValue: of([0.5], []) }],
    [PAIR[0].map((value) => Math.min(Math.max(value, -0.5), 0.5))],
  ],
  ['clamp', 'one limit', (of) => [of(PAIR[0], [2, 3]), { maxValue: of([0.5], []) }], [PAIR[0].map((value) => Math.min(value, 0.5))]],
  ['relu', 'of a matrix', (of) => [of(PAIR[0], [2, 3])], [PAIR[0].map((value) => Math.max(value, 0))]],
  [
    'gemm',
    'with everything',
    (of) => [of(PAIR[0], [3, 2]), of(PAIR[1], [2, 3]), { aTranspose: true, bTranspose: true, alpha: 2, beta: 3, c: of([1, 2], [2]) }],
    [
      [
        [0, 0],
        [0, 1],
        [1, 0],
        [1, 1],
      ].map(([i, j]) => 2 * sum([0, 1, 2].map((k) => PAIR[0][k * 2 + i] * PAIR[1][j * 3 + k])) + 3 * (j + 1)),
    ],
  ],
  ['gemm', 'plain', (of) => [of(PAIR[0], [2, 3]), of(PAIR[1], [3, 2]), { alpha: 1 }], [matrixProduct(PAIR[0], [2, 3], PAIR[1], [3, 2])]],
  ...['forward', 'backward', 'both'].flatMap((direction) => [gruCase(direction, false), gruCase(direction, true)]),
  ['gruCell', 'reset after', (of) => cellArguments(of, true), [gruStep({ ...cell, x: cell.x.slice(0, 2), hidden: [0.5, -0.5], size: 2 })]],
  ['gruCell', 'reset before', (of) => cellArguments(of, false), undefined],
  [
    'instanceNormalization',
    'nchw',
    (of) => [of(X, [2, 3, 2, 2]), { scale: of([1, 2, 3], [3]), bias: of([3, 2, 1], [3]), epsilon: 1e-3 }],
    [
      X.map((value, i) => {
        const group = X.slice(i - (i % 4), i - (i % 4) + 4);
        const variance = mean(group.map((other) => (other - mean(group)) ** 2));
        return ((value - mean(group)) / Math.sqrt(variance + 1e-3)) * (channelOf(i) + 1) + 3 - channelOf(i);
      }),
    ],
  ],
  ['leakyRelu', 'alpha 0.2', (of) => [of(PAIR[0], [2, 3]), { alpha: 0.2 }], [PAIR[0].map((value) => (value < 0 ? 0.2 * value : value))]],
  [
    'softmax',
    'of rows',
    (of) => [of(PAIR[0], [2, 3])],
    [[PAIR[0].slice(0, 3), PAIR[0].slice(3)].flatMap((row) => row.map((value) => Math.exp(value) / sum(row.map(Math.exp))))],
  ],
  [
    'split',
    'along axis 1',
    (of) => [of(PAIR[0], [2, 3]), [1, 2], { axis: 1 }],
    [
      [0, 3],
      [1, 2, 4, 5],
    ].map((places) => places.map((i) => PAIR[0][i])),
  ],
];

describe('what the draft says an operator is', () => {
  test('every decomposition of the draft has a case', () => {
    assert.deepEqual([...new Set(CASES.map(([name]) => name))].sort(), Object.keys(emulations).sort());
  });

  for (const [name, form, makeArguments, expected] of CASES) {
    test(`${name}, ${form}`, () => {
      const lengths = expected?.map(({ length }) => length) ?? [2];
      const direct = evaluate2021((builder, of) => builder[name](...makeArguments(of)), lengths);
      const emulated = evaluate2021((builder, of) => emulations[name](builder, ...makeArguments(of)), lengths);
      direct.forEach((result, i) => {
        assertClose(result, expected?.[i] ?? emulated[i], `${name}, result ${i}`);
        assertClose(emulated[i], expected?.[i] ?? result, `decomposition of ${name}, result ${i}`);
      });
    });
  }
});

// A small graph and its profile with numbers that one can check by hand. Labels and names are what an attacker would choose.

export const HOSTILE = '</script><script>alert(1)</script><!--';

/** @returns {import('webnn-node/inspect').ListedValue} */
const value = (id, shape, kind) => ({ id, dataType: 'float32', shape, kind, bytes: 4 * shape.reduce((product, length) => product * length, 1) });
/** @returns {import('webnn-node/inspect').ListedNode} */
const node = (id, operator, label, inputs, outputs, rest = {}) => ({
  id,
  operator,
  label,
  inputs,
  outputs,
  attributes: {},
  prologues: [],
  epilogue: [],
  origins: [id],
  ...rest,
});

/**
 * y = relu(reshape(x) · w) with w computed from a constant: one node is folded, one becomes a view, two become one.
 *
 * @type {import('webnn-node/inspect').GraphDescription}
 */
export const description = {
  source: {
    values: [
      value(0, [2, 3], 'input'),
      value(1, [3, 4], 'constant'),
      value(2, [3, 4], 'node'),
      value(3, [2, 3], 'node'),
      value(4, [2, 4], 'node'),
      value(5, [2, 4], 'node'),
    ],
    nodes: [
      node(0, 'neg', 'weights', [1], [2]),
      node(1, 'reshape', '', [0], [3], { attributes: { newShape: [2, 3] } }),
      node(2, 'matmul', HOSTILE, [3, 2], [4]),
      node(3, 'relu', 'act', [4], [5]),
    ],
    inputs: [{ name: HOSTILE, value: 0 }],
    outputs: [{ name: 'y', value: 5 }],
  },
  compiled: {
    values: [value(0, [2, 3], 'input'), value(2, [3, 4], 'constant'), value(3, [2, 3], 'node'), value(5, [2, 4], 'node')],
    nodes: [node(0, 'reshape', '', [0], [3], { origins: [1] }), node(1, 'matmul', HOSTILE, [3, 2], [5], { epilogue: ['relu'], origins: [2, 3] })],
    inputs: [{ name: HOSTILE, value: 0 }],
    outputs: [{ name: 'y', value: 5 }],
  },
  steps: [
    { index: 0, kernel: 'gemm', node: 1, operator: 'matmul', label: HOSTILE, multiplyAdds: 24, bytesRead: 72, bytesWritten: 32 },
    { index: 1, kernel: 'copy', node: null, operator: 'copy', label: '', multiplyAdds: 0, bytesRead: 32, bytesWritten: 32 },
  ],
  memory: { constantBytes: 48, packedBytes: 64, arenaBytes: 32 },
  passes: ['fold', 'epilogues', 'views'],
  devices: ['cpu'],
  isa: 'avx2',
  threads: 2,
  adapter: null,
};

const run = (start, duration, ...steps) => ({ start, duration, steps: steps.map(([from, time]) => ({ start: from, duration: time })) });

/** Three runs of 100, 200 and 120 ns. */
export const profile = {
  description,
  runs: [run(0, 100, [10, 60], [75, 20]), run(1000, 200, [10, 100], [120, 50]), run(2000, 120, [10, 80], [95, 16])],
};

// Recurrent cells in a Loop or a Scan, as exporters without operators for recurrent networks write them.

import { BOOL, FLOAT, INT64, node, value, weight, writeModel } from '../../__test__/onnx/model-writer.mjs';

/** Number of elements of an input and of a state. */
export const WIDTH = 64;

/** Floats in -0.1..0.1, the same in every process. */
function floats(/** @type {number} */ count) {
  let seed = 1;
  return Float32Array.from({ length: count }, () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return (seed / 2 ** 32 - 0.5) / 5;
  });
}

const split = (/** @type {string} */ from, /** @type {string[]} */ to) => node('Split', [from, 'parts'], to, { axis: { i: -1 } });

/** A cell with gates for input, output and forgetting: the states `h` and `c` become `hNext` and `cNext`. */
const LSTM = {
  states: ['h', 'c'],
  gates: 4,
  nodes: [
    node('MatMul', ['x', 'w'], ['ofInput']),
    node('MatMul', ['h', 'u'], ['ofState']),
    node('Add', ['ofInput', 'ofState'], ['sum']),
    node('Add', ['sum', 'b'], ['gates']),
    split('gates', ['i', 'o', 'f', 'g']),
    ...['i', 'o', 'f'].map((gate) => node('Sigmoid', [gate], [`${gate}Gate`])),
    node('Tanh', ['g'], ['candidate']),
    node('Mul', ['fGate', 'c'], ['kept']),
    node('Mul', ['iGate', 'candidate'], ['new']),
    node('Add', ['kept', 'new'], ['cNext']),
    node('Tanh', ['cNext'], ['bounded']),
    node('Mul', ['oGate', 'bounded'], ['hNext']),
  ],
};

/** A cell with gates for reset and update: the state `h` becomes `hNext`. */
const GRU = {
  states: ['h'],
  gates: 3,
  nodes: [
    node('MatMul', ['x', 'w'], ['ofInput']),
    node('MatMul', ['h', 'u'], ['ofState']),
    node('Add', ['ofInput', 'b'], ['biased']),
    split('biased', ['xz', 'xr', 'xn']),
    split('ofState', ['hz', 'hr', 'hn']),
    node('Add', ['xz', 'hz'], ['z']),
    node('Sigmoid', ['z'], ['update']),
    node('Add', ['xr', 'hr'], ['r']),
    node('Sigmoid', ['r'], ['reset']),
    node('Mul', ['reset', 'hn'], ['resetState']),
    node('Add', ['xn', 'resetState'], ['n']),
    node('Tanh', ['n'], ['candidate']),
    node('Sub', ['h', 'candidate'], ['difference']),
    node('Mul', ['update', 'difference'], ['share']),
    node('Add', ['candidate', 'share'], ['hNext']),
  ],
};

const CELLS = { LSTM, GRU };

/** All models: the cell, and the operator that runs it. */
export const MODELS = Object.keys(CELLS).flatMap((cell) => ['Loop', 'Scan'].map((operator) => ({ cell, operator })));

/**
 * The bytes of a model with the inputs `xs` of shape `[length, 1, WIDTH]` and `h0`, and, for LSTM, `c0`; and the output
 * `ys`, the states of all rounds.
 *
 * @param {{ cell: string, operator: string }} model
 */
export function modelOf({ cell, operator }) {
  const { states, gates, nodes } = CELLS[/** @type {keyof typeof CELLS} */ (cell)];
  const row = [1, WIDTH];
  const floatsOf = (/** @type {string[]} */ names) => names.map((name) => value(name, FLOAT, row));
  const next = states.map((state) => `${state}Next`);
  const returned = [...nodes, node('Identity', ['hNext'], ['row'])];
  const isLoop = operator === 'Loop';
  const body = isLoop
    ? {
        name: 'body',
        input: [value('at', INT64, []), value('goesOn', BOOL, []), ...floatsOf(states)],
        node: [node('Gather', ['xs', 'at'], ['x']), node('Identity', ['goesOn'], ['stillGoesOn']), ...returned],
        output: [value('stillGoesOn', BOOL, []), ...floatsOf([...next, 'row'])],
      }
    : { name: 'body', input: floatsOf([...states, 'x']), node: returned, output: floatsOf([...next, 'row']) };
  const first = states.map((state) => `${state}0`);
  const last = states.map((state) => `${state}Last`);
  const loop = isLoop
    ? [
        node('Shape', ['xs'], ['shape']),
        node('Gather', ['shape', 'zero'], ['length']),
        node('Loop', ['length', '', ...first], [...last, 'ys'], { body: { g: body } }),
      ]
    : [node('Scan', [...first, 'xs'], [...last, 'ys'], { body: { g: body }, num_scan_inputs: { i: 1 } })];
  return writeModel({
    inputs: [value('xs', FLOAT, ['length', 1, WIDTH]), ...floatsOf(first)],
    outputs: [value('ys', FLOAT, ['length', 1, WIDTH])],
    nodes: loop,
    weights: [
      weight('w', [WIDTH, gates * WIDTH], floats(WIDTH * gates * WIDTH)),
      weight(
        'u',
        [WIDTH, gates * WIDTH],
        floats(WIDTH * gates * WIDTH).map((x) => -x),
      ),
      weight('b', [gates * WIDTH], floats(gates * WIDTH)),
      weight('parts', [gates], new BigInt64Array(gates).fill(BigInt(WIDTH))),
      weight('zero', [], BigInt64Array.of(0n)),
    ],
  });
}

/**
 * Feeds of a model for `length` rounds.
 *
 * @param {{ cell: string }} model
 * @param {number} length
 * @returns {import('../../packages/cli/lib/types.mjs').Tensors}
 */
export function feedsOf({ cell }, length) {
  const { states } = CELLS[/** @type {keyof typeof CELLS} */ (cell)];
  const tensor = (/** @type {number[]} */ shape) => ({
    dataType: /** @type {const} */ ('float32'),
    shape,
    data: floats(shape.reduce((product, size) => product * size)),
  });
  return { xs: tensor([length, 1, WIDTH]), ...Object.fromEntries(states.map((state) => [`${state}0`, tensor([1, WIDTH])])) };
}

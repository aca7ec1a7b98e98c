// Recurrent networks.

import { casesOf, feed, weight, x } from '../case.mjs';

const GATES = { LSTM: 4, GRU: 3, RNN: 1 };

/**
 * @param {keyof typeof GATES} operator
 * @param {string} name
 * @param {[time: number, batch: number, inputs: number, hidden: number]} sizes
 * @param {{ isBoth?: boolean, hasLengths?: boolean, hasState?: boolean, attributes?: object }} [details]
 * @returns {import('../case.mjs').Row}
 */
const cell = (operator, name, [time, batch, inputs, hidden], { isBoth = false, hasLengths = false, hasState = false, attributes = {} } = {}) => {
  const [directions, rows] = [isBoth ? 2 : 1, GATES[operator] * hidden];
  const lengths = feed('int32', [batch], [1, time]);
  const state = x(directions, batch, hidden);
  // As networks are initialized: with larger weights, the smallest difference grows from step to step.
  const w = (/** @type {number[]} */ ...shape) => weight('float32', shape, [-(hidden ** -0.5), hidden ** -0.5]);
  return [
    `${name} t${time} b${batch} ${inputs}-${hidden}`,
    operator,
    [
      x(time, batch, inputs),
      w(directions, rows, inputs),
      w(directions, rows, hidden),
      w(directions, 2 * rows),
      hasLengths ? lengths : null,
      hasState ? state : null,
      ...(hasState && operator === 'LSTM' ? [state] : []),
    ],
    { hidden_size: hidden, ...(isBoth && { direction: 'bidirectional' }), ...attributes },
    { results: operator === 'LSTM' ? 3 : 2 },
  ];
};

const RESET_AFTER = { linear_before_reset: 1 };

export const RECURRENT = casesOf('recurrent', [
  cell('LSTM', 'step', [1, 1, 128, 128], { hasState: true }),
  cell('LSTM', 'forward', [100, 1, 128, 128]),
  cell('LSTM', 'both', [50, 1, 96, 48], { isBoth: true }),
  cell('LSTM', 'both', [64, 1, 512, 256], { isBoth: true }),
  cell('LSTM', 'batch', [64, 16, 256, 256]),
  cell('LSTM', 'lengths', [64, 16, 128, 128], { hasLengths: true }),
  cell('LSTM', 'wide', [20, 1, 640, 640]),
  cell('LSTM', 'detector', [4, 1, 128, 128], { hasState: true }),
  cell('GRU', 'step', [1, 1, 128, 128], { hasState: true }),
  cell('GRU', 'step after', [1, 1, 256, 256], { hasState: true, attributes: RESET_AFTER }),
  cell('GRU', 'forward', [100, 1, 128, 128]),
  cell('GRU', 'after', [100, 1, 128, 128], { attributes: RESET_AFTER }),
  cell('GRU', 'both after', [80, 1, 256, 192], { isBoth: true, attributes: RESET_AFTER }),
  cell('GRU', 'batch after', [32, 32, 128, 128], { attributes: RESET_AFTER }),
  cell('RNN', 'step', [1, 1, 128, 128], { hasState: true }),
  cell('RNN', 'forward', [100, 1, 128, 128]),
  cell('RNN', 'batch', [32, 16, 256, 256]),
]);

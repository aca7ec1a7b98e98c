// All cases, by family.

import { ATTENTION } from './families/attention.mjs';
import { CONVOLUTIONS, DEFORMABLE, GROUPED, POINTWISE, SIGNALS as SIGNAL_CONVOLUTIONS, TRANSPOSED } from './families/convolutions.mjs';
import { BINARY, CASTED, LOGIC, UNARY } from './families/elementwise.mjs';
import { MOVEMENT, RESIZE, TRANSPOSE } from './families/movement.mjs';
import { NORMALIZATIONS } from './families/normalizations.mjs';
import { SAMPLING, SIGNALS, TINY } from './families/others.mjs';
import { POOLS } from './families/pools.mjs';
import { PRODUCTS } from './families/products.mjs';
import { INTEGER, QDQ } from './families/quantized.mjs';
import { RECURRENT } from './families/recurrent.mjs';
import { REDUCTIONS, SOFTMAX } from './families/reductions.mjs';
import { GATHER, SCATTER, SELECTION } from './families/selection.mjs';
import { TREES } from './families/trees.mjs';

/** @type {import('./case.mjs').Case[]} */
export const CASES = [
  ...UNARY,
  ...BINARY,
  ...LOGIC,
  ...CASTED,
  ...REDUCTIONS,
  ...SOFTMAX,
  ...NORMALIZATIONS,
  ...POOLS,
  ...POINTWISE,
  ...CONVOLUTIONS,
  ...GROUPED,
  ...SIGNAL_CONVOLUTIONS,
  ...TRANSPOSED,
  ...DEFORMABLE,
  ...PRODUCTS,
  ...INTEGER,
  ...QDQ,
  ...RECURRENT,
  ...ATTENTION,
  ...GATHER,
  ...SCATTER,
  ...SELECTION,
  ...TRANSPOSE,
  ...MOVEMENT,
  ...RESIZE,
  ...SAMPLING,
  ...SIGNALS,
  ...TREES,
  ...TINY,
];

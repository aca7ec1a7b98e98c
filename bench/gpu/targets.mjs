// Targets for this package on a machine with an NVIDIA H100 or H200, and whether a run meets them.

/** Rows and columns of the matrix products in targets. */
export const PRODUCT_SIZES = [2048, 4096];

/**
 * @typedef {object} Facts about a run; `undefined` where something was not measured
 * @property {(kind: 'float32' | 'float16', size: number) => number | undefined} product FLOP/s of a matrix product
 * @property {(kind: 'float32' | 'float16') => number | undefined} peak FLOP/s of multiply-adds in registers
 * @property {(model: string) => number | undefined} copyShare of the bandwidth of a copy
 * @property {(model: string) => number | undefined} ratio how many times as fast as PyTorch, eager, in float32
 */

/**
 * @param {number | undefined} a
 * @param {number | undefined} b
 */
export const quotient = (a, b) => (a === undefined || b === undefined ? undefined : a / b);

/** @type {(facts: Facts) => number | undefined} */
const halfByFull = ({ product }) => quotient(product('float16', 4096), product('float32', 4096));

/** @type {(size: number) => Target} */
const share = (size) => ({
  name: `product of ${size} × ${size} float32 matrices, share of the peak`,
  wanted: 0.6,
  unit: 'share',
  got: ({ product, peak }) => quotient(product('float32', size), peak('float32')),
});

/** @type {(model: string) => Target} */
const faster = (model) => ({
  name: `${model}, times as fast as PyTorch (eager, float32)`,
  wanted: 1,
  unit: 'times',
  got: ({ ratio }) => ratio(model),
});

/**
 * @typedef {object} Target
 * @property {string} name
 * @property {number} wanted minimum
 * @property {'share' | 'times' | 'TFLOP/s'} unit
 * @property {(facts: Facts) => number | undefined} got NaN or `undefined` if not measured
 * @property {(facts: Facts) => boolean} [or] an alternative that suffices
 */

/** @type {Target[]} */
export const TARGETS = [
  ...PRODUCT_SIZES.map(share),
  faster('resnet50'),
  faster('minilm_l6_b8'),
  {
    name: 'gpt2_decode, share of the bandwidth of a copy',
    wanted: 0.6,
    unit: 'share',
    got: ({ copyShare }) => copyShare('gpt2_decode'),
  },
  {
    name: 'product of 4096 × 4096 matrices, float16 as many times as fast as float32',
    wanted: 1.5,
    unit: 'times',
    got: halfByFull,
  },
  {
    name: 'product of 4096 × 4096 float16 matrices, where the device has cooperative matrices (or 4 times float32)',
    wanted: 150,
    unit: 'TFLOP/s',
    got: ({ product }) => quotient(product('float16', 4096), 1e12),
    or: (facts) => (halfByFull(facts) ?? 0) >= 4,
  },
];

/**
 * Judges a run.
 *
 * @param {Facts} facts
 * @returns {{ name: string, wanted: number, unit: string, got: number | null, verdict: 'pass' | 'fail' | 'not measured' }[]}
 */
export function judge(facts) {
  return TARGETS.map(({ name, wanted, unit, got: value, or = () => false }) => {
    const got = value(facts);
    if (got === undefined || Number.isNaN(got)) {
      return { name, wanted, unit, got: null, verdict: 'not measured' };
    }
    return { name, wanted, unit, got, verdict: got >= wanted || or(facts) ? 'pass' : 'fail' };
  });
}

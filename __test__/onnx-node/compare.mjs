// How results of the single-operator tests of the onnx package are compared: as onnx's own runner does,
// but integers exactly.

/** Allowed difference relative to the expected value: that of onnx's runner. One step of float16 is 9.8e-4. */
export const RELATIVE_TOLERANCE = 1e-3;

/** The same for bfloat16: one step is 7.8e-3. onnx rounds each intermediate result. */
const RELATIVE_TOLERANCE_OF_BFLOAT16 = 2e-2;

/** Allowed difference beside it, for values near zero: that of onnx's runner. */
export const ABSOLUTE_TOLERANCE = 1e-7;

const isFloat = (type) => /^(b?float|double)/.test(type);

/** Whether two numbers agree: NaN with NaN, an infinity only with itself. */
function floatsAgree(got, expected, relative) {
  if (Object.is(got, expected) || got === expected) return true;
  if (!Number.isFinite(got) || !Number.isFinite(expected)) return false;
  return Math.abs(got - expected) <= ABSOLUTE_TOLERANCE + relative * Math.abs(expected);
}

/**
 * Compares the elements of two tensors.
 *
 * @param {ArrayLike<number | bigint>} got
 * @param {ArrayLike<number | bigint>} expected
 * @param {string} dataType of both, in words
 * @returns {string | undefined} what differs, `undefined` where all elements agree
 */
export function difference(got, expected, dataType) {
  if (got.length !== expected.length) {
    return `${got.length} elements, expected ${expected.length}`;
  }
  const relative = dataType === 'bfloat16' ? RELATIVE_TOLERANCE_OF_BFLOAT16 : RELATIVE_TOLERANCE;
  const agree = isFloat(dataType) ? (a, b) => floatsAgree(a, b, relative) : (a, b) => a === b;
  let [count, first] = [0, -1];
  for (let i = 0; i < got.length; i++) {
    if (!agree(got[i], expected[i])) {
      if (count === 0) first = i;
      count += 1;
    }
  }
  if (count === 0) return undefined;
  return `${count} of ${got.length} elements differ, the first is [${first}]: got ${got[first]}, expected ${expected[first]}`;
}

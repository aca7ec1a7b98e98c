// What is known about times: the last ones count most.

/** Share of the last value in the average. */
const SHARE = 0.2;

/**
 * The average with a further value.
 * @param {number | undefined} before undefined if there was none
 * @param {number} value
 * @returns {number}
 */
export const recent = (before, value) => (before === undefined ? value : before + SHARE * (value - before));

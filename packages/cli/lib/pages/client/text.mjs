// Shortens long texts.

/** Returns the beginning of a text, in at most `length` characters. */
export const startOf = (/** @type {string} */ text, /** @type {number} */ length) => (text.length <= length ? text : `${text.slice(0, length - 1)}…`);

/** Returns the end of a text, for example the part of a path that differs from its neighbors. */
export const endOf = (/** @type {string} */ text, /** @type {number} */ length) => (text.length <= length ? text : `…${text.slice(1 - length)}`);

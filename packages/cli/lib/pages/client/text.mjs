// Long texts in little room.

/** The beginning of a text, in at most `length` characters. */
export const startOf = (/** @type {string} */ text, /** @type {number} */ length) => (text.length <= length ? text : `${text.slice(0, length - 1)}…`);

/** The end of a text: of a path, that is the part that tells it from its neighbours. */
export const endOf = (/** @type {string} */ text, /** @type {number} */ length) => (text.length <= length ? text : `…${text.slice(1 - length)}`);

// Long texts in little room.

/** The beginning of a text, in at most `length` characters. */
export const startOf = (text, length) => (text.length <= length ? text : `${text.slice(0, length - 1)}…`);

/** The end of a text: of a path, that is the part that tells it from its neighbours. */
export const endOf = (text, length) => (text.length <= length ? text : `…${text.slice(1 - length)}`);

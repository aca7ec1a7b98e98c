// Hooks of import statements, for versions of Node without `module.registerHooks`.

/** @type {{specifiers: string[], url: string}} */
let redirection;

/** @param {typeof redirection} data from `module.register` */
export function initialize(data) {
  redirection = data;
}

/**
 * @param {string} specifier
 * @param {object} context
 * @param {(specifier: string, context: object) => Promise<object>} next
 */
export async function resolve(specifier, context, next) {
  return redirection.specifiers.includes(specifier) ? { url: redirection.url, shortCircuit: true } : next(specifier, context);
}

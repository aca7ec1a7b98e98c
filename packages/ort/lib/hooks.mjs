// Hooks of import statements, for versions of Node without `module.registerHooks`.

import copies from './copies.js';

/** @type {string[]} */
let specifiers;

/** @param {string[]} data from `module.register` */
export function initialize(data) {
  specifiers = data;
}

/**
 * @param {string} specifier
 * @param {{parentURL?: string}} context
 * @param {(specifier: string, context: object) => Promise<object>} next
 */
export async function resolve(specifier, context, next) {
  return specifiers.includes(specifier) ? { url: copies.urlFor(copies.commonFor(context.parentURL)), shortCircuit: true } : next(specifier, context);
}

/**
 * @param {string} url
 * @param {object} context
 * @param {(url: string, context: object) => Promise<object>} next
 */
export async function load(url, context, next) {
  const source = copies.sourceOf(url);
  return source === undefined ? next(url, context) : { format: 'module', source, shortCircuit: true };
}

// What a test file of the Web Platform Tests says about itself: its name and its `// META:` lines make the tests.

import { posix } from 'node:path';

/** The rules of https://web-platform-tests.org/writing-tests/testharness.html, as wptrunner's manifest reads them. */
const META = /^\/\/\s*META:\s*(\w*)=(.*)$/;

/** Scopes that a name in `// META: global=` stands for; those that no script of WebNN runs in are left out. */
const SCOPES = {
  window: ['window'],
  dedicatedworker: ['dedicatedworker'],
  sharedworker: ['sharedworker'],
  serviceworker: ['serviceworker'],
  worker: ['dedicatedworker', 'sharedworker', 'serviceworker'],
};

/** End of the address of an `.any.js` test by scope. */
const SUFFIXES = {
  window: '.any.html',
  dedicatedworker: '.any.worker.html',
  sharedworker: '.any.sharedworker.html',
  serviceworker: '.any.serviceworker.html',
};

/** Scopes that Node has: its main thread and its worker threads. */
const NODE_SCOPES = new Set(['window', 'dedicatedworker']);

/** Time limits in milliseconds, as wptrunner has them. */
export const TIMEOUTS = { normal: 10_000, long: 60_000 };

/**
 * The metadata of a test file: the comments at its very top, up to the first other line.
 *
 * @param {string} source
 * @returns {[key: string, value: string][]}
 */
export function parseMeta(source) {
  const entries = [];
  for (const line of source.split(/\r?\n/)) {
    const match = META.exec(line);
    if (match === null) break;
    entries.push([match[1], match[2].trim()]);
  }
  return entries;
}

/** Scopes and address endings that a file name and its META lines ask for; undefined where the file is no test. */
function kindOf(path, meta) {
  if (path.endsWith('.any.js')) {
    const globals = meta.find(([key]) => key === 'global')?.[1] ?? 'window,dedicatedworker';
    const scopes = new Set(globals.split(',').flatMap((name) => SCOPES[name.trim()] ?? []));
    const base = path.slice(0, -'.any.js'.length);
    return [...scopes].map((scope) => ({ scope, page: `${base}${SUFFIXES[scope]}` }));
  }
  if (path.endsWith('.window.js')) return [{ scope: 'window', page: path.replace(/\.js$/, '.html') }];
  if (path.endsWith('.worker.js')) return [{ scope: 'dedicatedworker', page: path.replace(/\.js$/, '.html') }];
  return undefined;
}

/** @throws {Error} if the variant is neither empty nor a query or fragment */
function checkedVariant(path, variant) {
  if (variant !== '' && !/^[?#]/.test(variant)) {
    throw new Error(`${path}: variant "${variant}" begins with neither ? nor #`);
  }
  return variant;
}

/** The device that a variant asks for, `?gpu` or `?op=sub&device=gpu`; undefined where it names none. */
function deviceOf(variant) {
  const named = new URLSearchParams(variant.replace(/#.*/, '')).get('device') ?? variant.slice(1);
  return ['cpu', 'gpu', 'npu'].includes(named) ? named : undefined;
}

/**
 * @typedef {object} Test
 * @property {string} url
 * @property {string} path of its file in the checkout
 * @property {string} scope
 * @property {boolean} isInNode whether Node has that scope
 * @property {string} variant
 * @property {string} [device] that the variant asks for
 * @property {string[]} scripts
 * @property {string} [title]
 * @property {number} timeout in milliseconds
 */

/**
 * The tests that a file stands for: one for each scope and variant.
 *
 * @param {string} path of the file in the checkout, with slashes
 * @param {string} source
 * @returns {{ url: string, path: string, scope: string, isInNode: boolean, variant: string, device?: string,
 *   scripts: string[], title?: string, timeout: number }[]} `url` is the address that wpt.fyi shows, `scripts` are
 *   addresses on the server in the order in which they run, the file last; `timeout` is in milliseconds; `isInNode`
 *   tells whether Node has the scope
 */
export function testsOf(path, source) {
  const meta = parseMeta(source);
  const kinds = kindOf(path, meta);
  if (kinds === undefined) return [];
  const valuesOf = (name) => meta.filter(([key]) => key === name).map(([, value]) => value);
  // Addresses begin at the root of the server, which is the root of the checkout.
  const scripts = valuesOf('script').map((script) => posix.resolve('/', posix.dirname(path), script));
  const variants = valuesOf('variant').map((variant) => checkedVariant(path, variant));
  return kinds.flatMap(({ scope, page }) =>
    (variants.length > 0 ? variants : ['']).map((variant) => ({
      url: `/${page}${variant}`,
      path,
      scope,
      isInNode: NODE_SCOPES.has(scope),
      variant,
      device: deviceOf(variant),
      scripts: [...scripts, `/${path}`],
      title: valuesOf('title')[0],
      timeout: TIMEOUTS[valuesOf('timeout').includes('long') ? 'long' : 'normal'],
    })),
  );
}

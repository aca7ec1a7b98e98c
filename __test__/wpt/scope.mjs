// A scope of a web page on top of Node's: what test files and testharness.js look for and Node lacks, and no more.

import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { servedFile } from './checkout.mjs';
import { installMissingMethods } from './ecmascript.mjs';

/** Where the tests believe to be; nothing is sent there. */
const ORIGIN = 'https://web-platform.test:8443';

/** Defines a global as Web IDL defines those of interfaces and operations. */
function define(name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
}

/** fetch() of the files of the checkout, which is what a test server would serve. */
function fetchFrom(directory) {
  return async (resource) => {
    const { pathname } = new URL(resource, globalThis.location.href);
    const file = servedFile(directory, pathname);
    try {
      return new Response(Uint8Array.from(await readFile(/** @type {string} */ (file))));
    } catch (error) {
      if (!['ENOENT', 'EISDIR', 'ERR_INVALID_ARG_TYPE'].includes(String(/** @type {NodeJS.ErrnoException} */ (error).code))) throw error;
      return new Response(`${pathname} is not in the checkout`, { status: 404 });
    }
  };
}

/** Makes the global object an event target that hears of exceptions and rejections that nobody handles. */
function installEvents() {
  const target = new EventTarget();
  for (const name of ['addEventListener', 'removeEventListener', 'dispatchEvent']) {
    define(name, target[name].bind(target));
  }
  process.on('uncaughtException', reportError);
  process.on('unhandledRejection', (reason, promise) => {
    target.dispatchEvent(Object.assign(new Event('unhandledrejection', { cancelable: true }), { reason, promise }));
  });
}

/**
 * Fires an error event, as for an exception that nobody catches.
 *
 * @param {unknown} error
 */
export function reportError(error) {
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  globalThis.dispatchEvent(Object.assign(new Event('error', { cancelable: true }), { error, message }));
}

/** The class of the global object, by which testharness.js and idlharness.js know in what scope they are. */
function installGlobalClass(scope) {
  if (scope === 'window') {
    define('window', globalThis);
    define('Window', class Window {});
    return;
  }
  class WorkerGlobalScope {}
  class DedicatedWorkerGlobalScope extends WorkerGlobalScope {
    static [Symbol.hasInstance](value) {
      return value === globalThis;
    }
  }
  define('WorkerGlobalScope', WorkerGlobalScope);
  define('DedicatedWorkerGlobalScope', DedicatedWorkerGlobalScope);
  // Node has one class for the navigators of all threads.
  define('WorkerNavigator', globalThis.Navigator);
}

/** Headers by which a page may share memory, https://html.spec.whatwg.org/#coop-coep. */
const ISOLATION = [/^Cross-Origin-Embedder-Policy:\s*require-corp$/im, /^Cross-Origin-Opener-Policy:\s*same-origin$/im];

/** Whether the test server would send the test with headers that isolate it. */
function isIsolated(directory, path) {
  const file = join(directory, `${path}.headers`);
  if (!existsSync(file)) return false;
  const headers = readFileSync(file, 'utf8');
  return ISOLATION.every((header) => header.test(headers));
}

/**
 * Turns the global object of this thread into the scope of a test.
 *
 * @param {{ scope: 'window' | 'dedicatedworker', url: string, path: string, title?: string }} test
 * @param {string} directory of the checkout
 * @param {(message: object) => void} post receives what a worker posts
 */
export function installScope({ scope, url, path, title }, directory, post) {
  define('self', globalThis);
  define('location', new URL(url, ORIGIN));
  define('fetch', fetchFrom(directory));
  define('GLOBAL', {
    isWindow: () => scope === 'window',
    isWorker: () => scope !== 'window',
    isShadowRealm: () => false,
  });
  define('crossOriginIsolated', isIsolated(directory, path));
  if (title !== undefined) {
    define('META_TITLE', title);
  }
  if (scope !== 'window') {
    define('postMessage', post);
  }
  installGlobalClass(scope);
  installEvents();
  installMissingMethods();
}

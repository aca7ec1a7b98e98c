// Lets contexts ask for a GPU where a program leaves it open: for tests that run on either device, and for the variants
// `?gpu` and `?npu` of the Web Platform Tests.

import { createRequire } from 'node:module';

const { ML } = createRequire(import.meta.url)('../../index.js');

/** Reads like `options`, but asks for a GPU where it has no preference. */
function asking(options) {
  return new Proxy(options, {
    get(target, name) {
      const value = Reflect.get(target, name);
      return name === 'powerPreference' && value === undefined ? 'high-performance' : value;
    },
  });
}

/** Puts a `createContext()` in place of the original that asks for a GPU where its options have no preference. */
export function askForGpuByDefault() {
  const descriptor = /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(ML.prototype, 'createContext'));
  const original = descriptor.value;
  const { createContext } = {
    createContext(options = undefined) {
      const isObject = (typeof options === 'object' && options !== null) || typeof options === 'function';
      return original.call(this, isObject ? asking(options) : (options ?? asking({})));
    },
  };
  Object.defineProperty(ML.prototype, 'createContext', { ...descriptor, value: createContext });
}

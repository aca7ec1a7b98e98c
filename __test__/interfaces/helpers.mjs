/** What the interface tests share: the public API, error matchers and recorders of observable steps. */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

export const require = createRequire(import.meta.url);

/** The public API, from the package root. */
export const webnn = () => require('../../index.js');

/** Matcher of a DOMException by name. */
export const domException = (name) => (error) => {
  assert.ok(error instanceof DOMException, `${error} is no DOMException`);
  assert.equal(error.name, name);
  return true;
};

export const invalidState = domException('InvalidStateError');

/** Matcher of a TypeError by the text of its message. */
export const typeError = (pattern) => (error) => {
  assert.equal(Object.getPrototypeOf(error), TypeError.prototype, `${error} is no TypeError`);
  assert.match(error.message, pattern);
  return true;
};

/** Calls a promise operation, asserts that it does not throw synchronously and is rejected. */
export async function rejects(call, matcher) {
  let promise;
  assert.doesNotThrow(() => {
    promise = call();
  });
  assert.ok(promise instanceof Promise);
  await assert.rejects(promise, matcher);
}

/** An object that appends each property read to `log` and answers from `values`. */
export function recording(log, values) {
  return new Proxy(
    {},
    {
      get(_, key) {
        log.push(key);
        return values[key];
      },
    },
  );
}

/** An object whose ToPrimitive appends to `log`. */
export function recordingNumber(log, name, value) {
  return {
    valueOf() {
      log.push(name);
      return value;
    },
  };
}

/** A builder with two float32 inputs of the shape [2, 3]. */
export async function newBuilder() {
  const { ml, MLGraphBuilder } = webnn();
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const descriptor = { dataType: 'float32', shape: [2, 3] };
  return { context, builder, a: builder.input('a', descriptor), b: builder.input('b', descriptor) };
}

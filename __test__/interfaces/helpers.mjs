/** What the interface tests share: the public API and recorders of observable steps. */

import { createRequire } from 'node:module';

export const require = createRequire(import.meta.url);

/** The public API, from the package root. */
export const webnn = () => require('../../index.js');

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

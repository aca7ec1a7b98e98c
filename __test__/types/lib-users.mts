// A program on what lib.webnn.d.ts declares, beside webnn-node/auto. Compiled by types.test.mjs, never run.

import 'webnn-node/auto';

const context: MLContext = await navigator.ml.createContext({ powerPreference: 'turbo' });
context.whatALaterDraftHas();
const type: 'int4' | string = (await context.createTensor({ dataType: 'int4', shape: [2] })).dataType;

// @ts-expect-error: no operator that the library does not declare
new MLGraphBuilder(context).softmax;

export { type };

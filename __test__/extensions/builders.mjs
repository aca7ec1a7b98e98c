/** Builders of contexts with extensions, whose types TypeScript cannot tell from the context. */

import { MLGraphBuilder } from '../runtime/helpers.mjs';

/** @typedef {import('../../index.js').MLContext} MLContext */

/** @type {(context: MLContext) => import('../../index.js').MLDynamicGraphBuilder} */
export const dynamicBuilder = (context) => /** @type {import('../../index.js').MLDynamicGraphBuilder} */ (new MLGraphBuilder(context));

/** @type {(context: MLContext) => import('../../index.js').MLInt4GraphBuilder} */
export const int4Builder = (context) => new MLGraphBuilder(context);

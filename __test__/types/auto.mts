// A program for browsers, on the globals of webnn-node/auto. Compiled by types.test.mjs, never run.

import 'webnn-node/auto';
import { ml } from 'webnn-node';

const context: MLContext = await navigator.ml.createContext({ accelerated: false });
const builder = new MLGraphBuilder(context);
const x: MLOperand = builder.relu(builder.input('x', { dataType: 'float32', shape: [2] }));
const graph: MLGraph = await builder.build({ y: x });
const tensor: MLTensor = await context.createTensor({ dataType: 'float32', shape: [2], readable: true });
context.dispatch(graph, { x: tensor }, { y: tensor });
const known: boolean = [context instanceof MLContext, graph instanceof MLGraph, tensor instanceof MLTensor].every(Boolean);
const api: ML = navigator.ml;
const rank: number = x.shape.length + (x instanceof MLOperand ? 1 : 0) + (api instanceof ML ? 1 : 0);

// @ts-expect-error: a number is no truth value
await navigator.ml.createContext({ accelerated: 3 });
// @ts-expect-error: an operand is no tensor
context.dispatch(graph, { x }, { y: tensor });
// @ts-expect-error: no such method
builder.frobnicate(x);
// @ts-expect-error: no such member
navigator.mls;

export { known, ml, rank };

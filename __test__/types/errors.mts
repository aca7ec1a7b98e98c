// Mistakes that the types must find: an unused `@ts-expect-error` is an error. Compiled by types.test.mjs, never run.

import { ml, MLContext, MLGraphBuilder, MLTensor, type MLGraph } from 'webnn-node';

declare const context: MLContext;
declare const builder: MLGraphBuilder;
declare const graph: MLGraph;
declare const tensor: MLTensor;
const x = builder.input('x', { dataType: 'float32', shape: [2] });

// @ts-expect-error: contexts come from ml.createContext()
new MLContext();
// @ts-expect-error: tensors come from createTensor()
new MLTensor();
// @ts-expect-error: a builder needs a context
new MLGraphBuilder();
// @ts-expect-error: no such power preference
await ml.createContext({ powerPreference: 'low' });
// @ts-expect-error: no such option
await ml.createContext({ threads: 2 });
// @ts-expect-error: a context is a promise
ml.createContext().destroy();

// @ts-expect-error: no such data type
builder.input('x', { dataType: 'float64', shape: [] });
// @ts-expect-error: the shape is required
builder.input('x', { dataType: 'float32' });
// @ts-expect-error: a constant needs a buffer, not an array
builder.constant({ dataType: 'float32', shape: [2] }, [1, 2]);
// @ts-expect-error: an operand is missing
builder.matmul(x);
// @ts-expect-error: a tensor is no operand
builder.relu(tensor);
// @ts-expect-error: the axis is required
builder.softmax(x);
// @ts-expect-error: no such option
builder.conv2d(x, x, { stride: [1, 1] });
// @ts-expect-error: no such layout
builder.conv2d(x, x, { filterLayout: 'nchw' });
// @ts-expect-error: no such method
builder.frobnicate(x);
// @ts-expect-error: split makes several operands
builder.relu(builder.split(x, 2));
// @ts-expect-error: outputs have names
await builder.build([x]);

// @ts-expect-error: attributes cannot be set
x.dataType = 'float16';
// @ts-expect-error: a shape is frozen
x.shape.push(1);
// @ts-expect-error: data is written with writeTensor()
tensor.data = new Float32Array(2);
// @ts-expect-error: outputs are missing
context.dispatch(graph, { x: tensor });
// @ts-expect-error: operands are not bound, tensors are
context.dispatch(graph, { x }, { y: tensor });

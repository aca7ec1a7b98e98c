// Programs that must compile: the types accept what the API accepts. Compiled by types.test.mjs, never run.

import { ml, MLContext, MLGraph, MLGraphBuilder, MLOperand, MLTensor } from 'webnn-node';

const context: MLContext = await ml.createContext({ powerPreference: 'low-power', accelerated: false, numThreads: 2, computePolicy: 'fallback' });
const accelerated: boolean = context.accelerated;
const limits = context.opSupportLimits();
const bytes: number = limits.maxTensorByteLength!;

const builder = new MLGraphBuilder(context);
const x: MLOperand = builder.input('x', { dataType: 'float32', shape: [1, 3, 8, 8] });
const filter = builder.constant({ dataType: 'float32', shape: [4, 3, 3, 3] }, new Float32Array(108));
const bias = builder.constant({ dataType: 'float32', shape: [4] }, new ArrayBuffer(16));
const shared = builder.constant({ dataType: 'int32', shape: [1] }, new SharedArrayBuffer(4));
const convolved = builder.conv2d(x, filter, { bias, padding: [1, 1, 1, 1], strides: [2, 2], inputLayout: 'nchw', label: 'stem' });
const activated = builder.clamp(convolved, { minValue: 0, maxValue: 6 });
const large = builder.clamp(builder.constant('int64', 5n), { maxValue: 2n ** 40n });
const halves: readonly MLOperand[] = builder.split(activated, 2, { axis: 1 });
const joined = builder.concat([halves[0]!, halves[1]!], 1);
const indices = builder.argMax(joined, 1, { keepDimensions: true, outputDataType: 'int64' });
const shape: readonly number[] = indices.shape;
const dataType: 'int64' | string = indices.dataType;

const graph: MLGraph = await builder.build({ joined, indices, large, shared });
const input: MLTensor = await context.createTensor({ dataType: 'float32', shape: [1, 3, 8, 8], writable: true });
const output = await context.createTensor({ dataType: 'int64', shape: indices.shape, readable: true });
const constantTensor = await context.createConstantTensor({ dataType: 'uint8', shape: [2] }, Uint8Array.of(1, 2));
const fromTensor: MLOperand = new MLGraphBuilder(context).constant(constantTensor);
context.writeTensor(input, new Float32Array(192));
context.dispatch(graph, { x: input }, { indices: output });
const buffer: ArrayBuffer = await context.readTensor(output);
const nothing: undefined | void = await context.readTensor(output, new BigInt64Array(16));
const readable: boolean = output.readable && !output.writable && !output.constant;
graph.destroy();
output.destroy();
context.destroy();
const message: string | undefined = (await context.lost).message;

export { accelerated, buffer, bytes, dataType, fromTensor, message, nothing, readable, shape };

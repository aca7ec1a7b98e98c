// C = 0.2 * A + B on four numbers: the first program of the WebNN draft.
import { ml, MLGraphBuilder } from 'webnn-node';

const context = await ml.createContext();
const builder = new MLGraphBuilder(context);
/** @type {{ dataType: 'float32', shape: number[] }} */
const descriptor = { dataType: 'float32', shape: [2, 2] };

const a = builder.input('A', descriptor);
const b = builder.input('B', descriptor);
const c = builder.add(builder.mul(a, builder.constant('float32', 0.2)), b);
const graph = await builder.build({ C: c });

const tensorA = await context.createTensor({ ...descriptor, writable: true });
const tensorB = await context.createTensor({ ...descriptor, writable: true });
const tensorC = await context.createTensor({ ...descriptor, readable: true });
context.writeTensor(tensorA, new Float32Array([1, 2, 3, 4]));
context.writeTensor(tensorB, new Float32Array([0.8, 0.6, 0.4, 0.2]));
context.dispatch(graph, { A: tensorA, B: tensorB }, { C: tensorC });

const sums = new Float32Array(await context.readTensor(tensorC));
console.log(Array.from(sums, (sum) => sum.toFixed(3)).join(' '));
context.destroy();

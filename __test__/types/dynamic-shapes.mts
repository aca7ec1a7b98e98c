// The extension "dynamic-shapes".

import { ml, MLGraphBuilder, type MLContextExtension, type MLDimension, type MLDynamicGraph, type MLDynamicGraphBuilder } from 'webnn-node';

const extensions: MLContextExtension[] = ['dynamic-shapes'];
const context = await ml.createContext({ extensions });
// @ts-expect-error there is no such extension
await ml.createContext({ extensions: ['dynamic'] });

const plain = new MLGraphBuilder(context);
// @ts-expect-error a name needs the extension
plain.input('x', { dataType: 'float32', shape: ['batch', 3] });

const builder = plain as MLDynamicGraphBuilder;
const x = builder.input('x', { dataType: 'float32', shape: ['batch', 3] });
const shape: readonly MLDimension[] = x.shape;
const graph: MLDynamicGraph = await builder.build({ y: builder.relu(x) });
const { y } = graph.computeShapes({ x: [1, 3] });
const size: number | undefined = y?.[0];
export { shape, size };

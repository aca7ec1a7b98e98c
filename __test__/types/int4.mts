// The extension "int4".

import { ml, MLGraphBuilder, type MLConstantDataType, type MLInt4Context, type MLInt4GraphBuilder, type MLOperandDataType } from 'webnn-node';

const context = await ml.createContext({ extensions: ['int4', 'dynamic-shapes'] });
const types: MLConstantDataType[] = ['int4', 'uint4', 'float32'];
// @ts-expect-error only constants have elements of 4 bits
const type: MLOperandDataType = 'int4';

const plain = new MLGraphBuilder(context);
// @ts-expect-error this needs the extension
plain.constant({ dataType: 'uint4', shape: [2] }, new Uint8Array(1));

const builder = plain as MLInt4GraphBuilder;
const weights = builder.constant({ dataType: 'uint4', shape: [2] }, new Uint8Array(1));
const scalar = builder.constant('int4', -8);
const tensor = await (context as MLInt4Context).createConstantTensor({ dataType: 'int4', shape: [3] }, new Uint8Array(2));
const shared = builder.constant(tensor);
// @ts-expect-error inputs have no elements of 4 bits
builder.input('x', { dataType: 'int4', shape: [2] });
export { scalar, shared, type, types, weights };

// A program for onnxruntime-node. `npm start` runs it on webnn-node: see package.json.

import { InferenceSession, Tensor } from 'onnxruntime-node';

const session = await InferenceSession.create('tokens.onnx');
const results = await session.run({
  ids: new Tensor('int64', BigInt64Array.of(101n, 7592n, 102n), [1, 3]),
  mask: new Tensor('float32', Float32Array.of(1, 1, 0), [1, 3]),
});
console.log(results.masked.data);
await session.release();

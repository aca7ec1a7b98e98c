// A program with a library that needs onnxruntime-node. `overrides` in package.json makes npm install webnn-node-ort
// instead.

import { maskTokens } from 'some-library';

console.log(await maskTokens('tokens.onnx', [101n, 7592n, 102n], [1, 1, 0]));

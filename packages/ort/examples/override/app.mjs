// A program with a library that needs onnxruntime-node. By `overrides` in package.json, npm installs webnn-node-ort in its place.

import { maskTokens } from 'some-library';

console.log(await maskTokens('tokens.onnx', [101n, 7592n, 102n], [1, 1, 0]));

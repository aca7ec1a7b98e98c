// A program of a user of the installed package, in any runtime. Prints `installed` when the results are right.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { ml, ML, MLGraphBuilder } from 'webnn-node';
import { draft2021 } from 'webnn-node-compat';
import { loadModel } from 'webnn-node/onnx';
import { systemInfo } from 'webnn-node/inspect';
import 'webnn-node/auto';

const context = await navigator.ml.createContext();
const builder = new MLGraphBuilder(context);
const descriptor = /** @type {const} */ ({ dataType: 'float32', shape: [2, 2] });
const graph = await builder.build({ y: builder.add(builder.input('x', descriptor), builder.constant('float32', 0.5)) });
const x = await context.createTensor({ ...descriptor, writable: true });
const y = await context.createTensor({ ...descriptor, readable: true });
context.writeTensor(x, new Float32Array([1, 2, 3, 4]));
context.dispatch(graph, { x }, { y });
assert.deepEqual([...new Float32Array(await context.readTensor(y))], [1.5, 2.5, 3.5, 4.5]);

// The thread that computes for this draft starts from a file of the package.
const earlier = new draft2021.MLGraphBuilder(draft2021.ml.createContext());
const negated = new Float32Array(2);
earlier.build({ y: earlier.neg(earlier.input('x', { type: 'float32', dimensions: [2] })) }).compute({ x: Float32Array.of(1, 2) }, { y: negated });
assert.deepEqual([...negated], [-1, -2]);

assert.equal(createRequire(import.meta.url)('webnn-node').ml, ml);
assert.ok(navigator.ml instanceof ML && navigator.ml !== ml);
assert.equal(typeof loadModel, 'function');
assert.ok(Number(systemInfo().threads) > 0);
console.log('installed');

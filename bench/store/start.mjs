// From the start of a process to the first embedding: node start.mjs '{"engine", "file", "cache"}'. Prints the time of the result on
// the clock that all processes share, in nanoseconds. Imports nothing else: that would be measured, too.

import { createRequire } from 'node:module';

const { engine, file, cache, tokens } = JSON.parse(process.argv[2]);
const shape = [1, tokens];
const ids = BigInt64Array.from({ length: tokens }, (_, i) => BigInt(1000 + i));
const [ones, zeros] = [new BigInt64Array(tokens).fill(1n), new BigInt64Array(tokens)];
const inputs = { input_ids: ids, attention_mask: ones, token_type_ids: zeros };

/** @param {(data: BigInt64Array) => any} toTensor */
const feeds = (toTensor) => Object.fromEntries(Object.entries(inputs).map(([name, data]) => [name, toTensor(data)]));

async function ours() {
  const { loadModel } = createRequire(import.meta.url)('../../onnx.js');
  const model = await loadModel(file, cache === undefined ? {} : { cache });
  return (await model.run(feeds((data) => ({ data, shape })))).last_hidden_state.data;
}

async function theirs() {
  const { InferenceSession, Tensor } = createRequire(new URL('../package.json', import.meta.url))('onnxruntime-node');
  const session = await InferenceSession.create(file);
  return (await session.run(feeds((data) => new Tensor('int64', data, shape)))).last_hidden_state.data;
}

const [first] = await (engine === 'webnn-node' ? ours() : theirs());
if (!Number.isFinite(first)) throw new Error('the embedding is not a number');
console.log(JSON.stringify({ atNs: String(process.hrtime.bigint()) }));
process.exit();

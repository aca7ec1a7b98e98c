// Texts to vectors with Transformers.js, computed by WebNN.
//
//   node index.mjs                            (Node 20: node --liftoff-only index.mjs)
//   node index.mjs --model FOLDER TEXT...     a model on this disk instead of one of the Hugging Face Hub

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import 'webnn-node/auto';
import * as ort from 'onnxruntime-web/webgpu';

const TEXTS = ['A cat sat on the mat.', 'The feline is resting on a rug.', 'How do plants turn sunlight into sugar?'];

/** WebNN compiles for shapes that are known: all texts are padded to this number of tokens. */
const TOKENS = 32;

const { values, positionals } = parseArgs({
  options: { model: { type: 'string', default: 'Xenova/all-MiniLM-L6-v2' }, json: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const texts = positionals.length > 0 ? positionals : TEXTS;

/**
 * In Node, Transformers.js names files of models by their path, and onnxruntime-web takes bytes.
 * @param {string} path
 * @param {object} options
 */
async function createSession(path, options) {
  return ort.InferenceSession.create(await readFile(path), options);
}

// Transformers.js prefers a runtime that it finds under this symbol to onnxruntime-node.
Object.assign(globalThis, {
  [Symbol.for('onnxruntime')]: { ...ort, InferenceSession: { create: createSession } },
});
// The WebAssembly comes from the package instead of a server.
ort.env.wasm.wasmPaths = new URL('./', import.meta.resolve('onnxruntime-web/webgpu')).href;
const { env, pipeline } = await import('@huggingface/transformers');

// Folders are named relative to this path.
const isFolder = existsSync(values.model);
if (isFolder) {
  env.allowRemoteModels = false;
  env.localModelPath = dirname(resolve(values.model));
}

const extract = await pipeline('feature-extraction', isFolder ? basename(resolve(values.model)) : values.model, {
  device: 'auto',
  dtype: 'fp32',
  session_options: {
    executionProviders: ['webnn'],
    freeDimensionOverrides: { batch_size: texts.length, sequence_length: TOKENS },
    // An error in place of nodes that run in WebAssembly.
    extra: { session: { disable_cpu_ep_fallback: '1' } },
  },
});
const { tokenizer } = extract;
extract.tokenizer = (batch, options) => tokenizer(batch, { ...options, padding: 'max_length', max_length: TOKENS });

// Unit vectors: the product of two is the cosine of the angle between them.
const vectors = (await extract(texts, { pooling: 'mean', normalize: true })).tolist();

if (values.json) {
  console.log(JSON.stringify(vectors));
} else {
  const [first, ...others] = vectors;
  console.log(`How similar to "${texts[0]}":`);
  others.forEach((vector, index) => {
    const cosine = vector.reduce((sum, number, at) => sum + number * first[at], 0);
    console.log(`${cosine.toFixed(3).padStart(6)}  ${texts[index + 1]}`);
  });
}

// The same work as a request, without a server: a model's run(), or tokens, run() and vector of a text. Told by a message, and
// answers with the milliseconds of each.

import { loadModel } from 'webnn-node/onnx';
import { normalize } from '../../packages/serve/lib/models/embedder.js';
import { modelFile } from '../../packages/serve/lib/models/files.js';
import { readTextFolder } from '../../packages/serve/lib/text/folder.js';
import { randomFloats } from '../../__test__/lib/random.mjs';

/**
 * @typedef {{ kind: 'tensors', file: string, shape: number[], seconds: number } | { kind: 'embeddings', folder: string, text: string, seconds: number }} Work
 */

/**
 * @param {Work} work
 * @returns {Promise<() => Promise<unknown>>}
 */
async function prepare(work) {
  if (work.kind === 'tensors') {
    const model = await loadModel(work.file, { device: 'cpu' });
    const data = randomFloats(work.shape.reduce((a, b) => a * b, 1));
    return () => model.run({ x: { data, shape: work.shape } });
  }
  const { tokenizer } = await readTextFolder(work.folder);
  const model = await loadModel(modelFile(work.folder, 'fp32'), { device: 'cpu' });
  return async () => {
    const { ids } = tokenizer.encode(work.text);
    const shape = [1, ids.length];
    const input_ids = { data: BigInt64Array.from(ids, BigInt), shape };
    const attention_mask = { data: new BigInt64Array(ids.length).fill(1n), shape };
    const { sentence_embedding } = await model.run({ input_ids, attention_mask });
    return normalize(sentence_embedding.data);
  };
}

process.on('message', async (/** @type {Work} */ work) => {
  const run = await prepare(work);
  const samples = [];
  for (const start = performance.now(); performance.now() - start < work.seconds * 1000; ) {
    const begin = performance.now();
    await run();
    samples.push(performance.now() - begin);
  }
  process.send?.(samples);
});

// Vectors and labels by Transformers.js 2, which copies Tensors property by property. Arguments: the folder of the models.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { env, pipeline } from '@xenova/transformers';

const [models] = process.argv.slice(2);
env.allowRemoteModels = false;
env.localModelPath = models;

const texts = JSON.parse(readFileSync(join(models, 'embedder', 'texts.json'), 'utf8')).slice(0, 6);
const results = {};
for (const [dtype, quantized] of [
  ['fp32', false],
  ['q8', true],
]) {
  const extract = await pipeline('feature-extraction', 'embedder', { quantized });
  const vectors = await extract(texts, { pooling: 'mean', normalize: true });
  const classify = await pipeline('text-classification', 'classifier', { quantized });
  results[dtype] = { vectors: vectors.tolist(), labels: await classify(texts, { topk: 3 }) };
  await extract.dispose();
  await classify.dispose();
}
console.log(JSON.stringify(results));

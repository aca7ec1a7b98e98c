// Vectors of texts by the pipeline of Transformers.js, one by one and in batches, for every type of weights.
// Arguments: the folder of the models.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { env, pipeline } from '@huggingface/transformers';

const [models] = process.argv.slice(2);
env.allowRemoteModels = false;
env.localModelPath = models;

const texts = JSON.parse(readFileSync(join(models, 'embedder', 'texts.json'), 'utf8'));
const results = {};
for (const dtype of ['fp32', 'q8']) {
  const extract = await pipeline('feature-extraction', 'embedder', { dtype });
  const alone = [];
  for (const text of texts.slice(0, 6)) {
    alone.push((await extract(text, { pooling: 'mean', normalize: true })).tolist()[0]);
  }
  const batch = (await extract(texts.slice(0, 6), { pooling: 'mean', normalize: true })).tolist();
  const states = await extract(texts[0]);
  results[dtype] = { alone, batch, states: { dims: states.dims, data: Array.from(states.data.subarray(0, 64)) } };
  await extract.dispose();
}
console.log(JSON.stringify(results));

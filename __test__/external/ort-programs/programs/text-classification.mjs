// Labels of texts by the pipeline of Transformers.js. Arguments: the folder of the models.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { env, pipeline } from '@huggingface/transformers';

const [models] = process.argv.slice(2);
env.allowRemoteModels = false;
env.localModelPath = models;

const texts = JSON.parse(readFileSync(join(models, 'embedder', 'texts.json'), 'utf8')).slice(0, 8);
const results = {};
for (const dtype of ['fp32', 'q8']) {
  const classify = await pipeline('text-classification', 'classifier', { dtype });
  results[dtype] = { batch: await classify(texts, { top_k: null }), alone: await classify(texts[3]) };
  await classify.dispose();
}
console.log(JSON.stringify(results));

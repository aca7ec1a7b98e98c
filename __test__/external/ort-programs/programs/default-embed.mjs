// Vectors by the default of Chroma, which brings Transformers.js 3. Arguments: the folder of the models.

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DefaultEmbeddingFunction } from '@chroma-core/default-embed';

// The settings of the Transformers.js that it uses.
const require = createRequire(createRequire(import.meta.url).resolve('@chroma-core/default-embed'));
const { env } = await import(pathToFileURL(require.resolve('@huggingface/transformers').replace(/\.cjs$/, '.mjs')).href);

const [models] = process.argv.slice(2);
env.allowRemoteModels = false;
env.localModelPath = models;

const texts = JSON.parse(readFileSync(join(models, 'embedder', 'texts.json'), 'utf8')).slice(0, 6);
const results = {};
for (const dtype of ['fp32', 'q8']) {
  results[dtype] = await new DefaultEmbeddingFunction({ modelName: 'embedder', dtype }).generate(texts);
}
console.log(JSON.stringify(results));

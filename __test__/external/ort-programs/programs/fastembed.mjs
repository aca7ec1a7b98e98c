// Vectors by fastembed, whose tokenizer is native. Arguments: the folder of the models.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { EmbeddingModel, FlagEmbedding } from 'fastembed';

const [models] = process.argv.slice(2);
const folder = join(models, 'embedder');
const embedding = await FlagEmbedding.init({
  model: EmbeddingModel.CUSTOM,
  modelAbsoluteDirPath: folder,
  modelName: 'onnx/model.onnx',
  maxLength: 128,
});
const texts = JSON.parse(readFileSync(join(folder, 'texts.json'), 'utf8')).slice(0, 6);
const passages = [];
for await (const batch of embedding.embed(texts, 4)) {
  passages.push(...batch.map((vector) => Array.from(vector)));
}
console.log(JSON.stringify({ passages, query: Array.from(await embedding.queryEmbed(texts[0])) }));

// Jobs of the queue "embeddings": each names a file of texts, one per line. Their vectors are written beside it, as JSON.

import { readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { worker } from 'webnn-node-serve';

const { REDIS_URL, MODEL = 'node_modules/webnn-node-serve/models/embeddings', DATA = '/data' } = process.env;

/** A job names a file of this folder, never a path. @param {string} file */
const pathOf = (file) => path.join(DATA, path.basename(file));

const starting = worker('embeddings', {
  connection: { url: REDIS_URL },
  model: MODEL,
  async inputs({ data: { file } }) {
    const lines = (await readFile(pathOf(file), 'utf8')).split('\n');
    return { text: lines.filter((line) => line !== '') };
  },
  async outputs({ data: { file } }, { embedding: { data, shape } }) {
    const [count, width] = shape;
    const vectors = Array.from({ length: count }, (_, i) => Array.from(data.subarray(i * width, (i + 1) * width)));
    // A job runs twice if its worker is killed: readers see the whole file or none, and the second time writes the same.
    const unfinished = `${pathOf(file)}.${process.pid}.unfinished`;
    await writeFile(unfinished, JSON.stringify(vectors));
    await rename(unfinished, `${pathOf(file)}.json`);
    return { vectors: count };
  },
});
// Before the model is loaded: the first process of a container gets no signal without a function for it.
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, async () => (await starting).close());
await starting;

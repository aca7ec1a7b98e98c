// Models whose inputs and outputs are strings.

import assert from 'node:assert/strict';
import test from 'node:test';
import { FLOAT, node, sequenceValue, STRING, value, writeModel } from '../../../__test__/onnx/model-writer.mjs';
import { post, postJson, repositoryOf, startServer } from './support.mjs';

const bytesOf = (text) => new TextEncoder().encode(text);

/** Doubles texts; counts two words in them, also as maps, which the protocol does not have. */
const words = writeModel({
  opset: 20,
  inputs: [value('text', STRING, ['n', 1])],
  outputs: [value('twice', STRING, ['n', 1]), value('counts', FLOAT, ['n', 2]), sequenceValue('maps', FLOAT)],
  nodes: [
    node('StringConcat', ['text', 'text'], ['twice']),
    node('TfIdfVectorizer', ['text'], ['counts'], {
      mode: { s: bytesOf('TF') },
      min_gram_length: { i: 1 },
      max_gram_length: { i: 1 },
      max_skip_count: { i: 0 },
      ngram_counts: { ints: [0] },
      ngram_indexes: { ints: [0, 1] },
      pool_strings: { strings: ['good', 'bad'].map(bytesOf) },
    }),
    node('ai.onnx.ml.ZipMap', ['counts'], ['maps'], { classlabels_strings: { strings: ['good', 'bad'].map(bytesOf) } }),
  ],
});

test('strings are BYTES, and join in batches', async (t) => {
  const server = await startServer(t, { models: repositoryOf(t, { 'words/1/model.onnx': words }) });
  const url = `${server.urls.http}/v2/models/words`;
  const metadata = await (await fetch(url)).json();
  assert.deepEqual(metadata.inputs, [{ name: 'text', datatype: 'BYTES', shape: [-1, 1] }]);
  assert.deepEqual(
    metadata.outputs.map(({ name, datatype }) => [name, datatype]),
    [
      ['twice', 'BYTES'],
      ['counts', 'FP32'],
    ],
  );
  const infer = (...data) => postJson(`${url}/infer`, { inputs: [{ name: 'text', datatype: 'BYTES', shape: [data.length, 1], data }] });
  const answers = await Promise.all(['good', 'bad', 'ä\u{1f34e}'].map((text) => infer(text, 'good')));
  const outputs = answers.map(({ json }) => Object.fromEntries(json.outputs.map(({ name, data }) => [name, data])));
  assert.deepEqual(outputs, [
    { twice: ['goodgood', 'goodgood'], counts: [1, 0, 1, 0] },
    { twice: ['badbad', 'goodgood'], counts: [0, 1, 1, 0] },
    { twice: ['ä\u{1f34e}ä\u{1f34e}', 'goodgood'], counts: [0, 0, 1, 0] },
  ]);
});

test('strings that are no UTF-8 are refused', async (t) => {
  const server = await startServer(t, { models: repositoryOf(t, { 'words/1/model.onnx': words }) });
  const raw = Buffer.from([2, 0, 0, 0, 0x61, 0xff]);
  const head = JSON.stringify({ inputs: [{ name: 'text', datatype: 'BYTES', shape: [1, 1], parameters: { binary_data_size: raw.length } }] });
  const headers = { 'inference-header-content-length': `${head.length}` };
  const answer = await post(`${server.urls.http}/v2/models/words/infer`, Buffer.concat([Buffer.from(head), raw]), headers);
  assert.equal(answer.status, 400);
  assert.match(answer.bytes.toString(), /input \\"text\\": string 0 is not UTF-8/);
});

// The program of examples/transformers in a project of its own, as a user has it, with a tiny BERT on disk.

import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import test, { before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runNode } from '../../lib/processes.mjs';
import { temporaryFolder } from '../../lib/folders.mjs';
import { loadModel } from '../../../onnx.js';
import { maxAbsDifference } from '../../lib/numbers.mjs';
import { root } from '../../../scripts/process.mjs';
import { writeBert } from './bert.mjs';

const PACKAGES = ['@huggingface/transformers', 'onnxruntime-web'];
const TEXTS = ['A cat sat on the mat.', 'How do plants turn sunlight into sugar?'];

/** Numbers of vectors of length 1. */
const TOLERANCE = 1e-5;

const project = temporaryFolder();
before(() => {
  const link = (name, target) => {
    const path = join(project, 'node_modules', name);
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(target, path, 'junction');
  };
  link('webnn-node', root);
  PACKAGES.forEach((name) => link(name, fileURLToPath(new URL(`../node_modules/${name}`, import.meta.url))));
  writeFileSync(join(project, 'package.json'), '{ "private": true }');
  copyFileSync(join(root, 'examples', 'transformers', 'index.mjs'), join(project, 'transformers.mjs'));
  writeBert(join(project, 'models', 'bert'));
});

/** What the example prints. It runs with the flags of V8 that this process has. */
async function runExample(...args) {
  const flags = process.execArgv.filter((flag) => flag.startsWith('--liftoff'));
  const model = join(project, 'models', 'bert');
  const { code, stdout, stderr } = await runNode([...flags, 'transformers.mjs', '--model', model, ...args], { cwd: project });
  assert.equal(code, 0, stderr);
  return stdout;
}

/** The same vectors by onnxruntime-node, which Transformers.js uses by itself: no padding, one text at a time. */
async function byOnnxruntimeNode(texts) {
  const { env, pipeline } = await import('@huggingface/transformers');
  env.allowRemoteModels = false;
  env.localModelPath = join(project, 'models');
  const extract = await pipeline('feature-extraction', 'bert', { device: 'cpu', dtype: 'fp32' });
  const vectors = [];
  for (const text of texts) {
    const inputs = await extract.tokenizer(text);
    const [vector] = (await extract(text, { pooling: 'mean', normalize: true })).tolist();
    vectors.push({ vector, inputs });
  }
  await extract.dispose();
  return vectors;
}

/** The mean over the tokens, of length 1, of what this package's own `loadModel()` gives. */
async function byLoadModel({ inputs }) {
  const model = await loadModel(join(project, 'models', 'bert', 'onnx', 'model.onnx'));
  const feeds = Object.fromEntries(Object.entries(inputs).map(([name, { data, dims }]) => [name, { data, shape: dims }]));
  const {
    last_hidden_state: { data: states },
  } = await model.run(feeds);
  const [, tokens] = inputs.input_ids.dims;
  const width = states.length / tokens;
  const mean = Array.from({ length: width }, (_, at) => {
    let sum = 0;
    for (let token = 0; token < tokens; token++) {
      sum += states[token * width + at];
    }
    return sum / tokens;
  });
  model.destroy();
  const length = Math.hypot(...mean);
  return mean.map((number) => number / length);
}

test('texts become the vectors that onnxruntime-node and loadModel() make of them', async () => {
  const vectors = JSON.parse(await runExample('--json', ...TEXTS));
  const expected = await byOnnxruntimeNode(TEXTS);
  assert.equal(vectors.length, TEXTS.length);
  for (const [index, vector] of vectors.entries()) {
    assert.ok(maxAbsDifference(vector, expected[index].vector) <= TOLERANCE, `${vector}\nbut onnxruntime-node: ${expected[index].vector}`);
    const ours = await byLoadModel(expected[index]);
    assert.ok(maxAbsDifference(vector, ours) <= TOLERANCE, `${vector}\nbut loadModel: ${ours}`);
  }
});

test('texts are compared with the first', async () => {
  const lines = (await runExample(...TEXTS)).trim().split('\n');
  assert.equal(lines[0], `How similar to "${TEXTS[0]}":`);
  assert.match(lines[1], /^ *-?\d\.\d{3} {2}How do plants turn sunlight into sugar\?$/);
  assert.equal(lines.length, 2);
});

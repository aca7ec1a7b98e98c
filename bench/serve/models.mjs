// Models for the measurements, written by the test's writer: what they compute is known, and no file need be fetched.

import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { FLOAT, node, value, weight, writeModel } from '../../__test__/onnx/model-writer.mjs';
import { randomFloats } from '../../__test__/lib/random.mjs';

/** Next to no work for 602 KB in and 4 KB out: x [batch, 3, 224, 224] -> y [batch, 1000]. */
function picture() {
  return writeModel({
    inputs: [value('x', FLOAT, ['batch', 3, 224, 224])],
    outputs: [value('y', FLOAT, ['batch', 1000])],
    weights: [weight('w', [3, 1000], randomFloats(3000))],
    nodes: [node('GlobalAveragePool', ['x'], ['p']), node('Flatten', ['p'], ['f']), node('MatMul', ['f', 'w'], ['y'])],
  });
}

/** Products of one row, which read all weights: x [batch, width] through `layers` matrices of width x width. */
function rows({ width = 1024, layers = 12 } = {}) {
  const names = Array.from({ length: layers + 1 }, (_, i) => (i === 0 ? 'x' : i === layers ? 'y' : `h${i}`));
  return writeModel({
    inputs: [value('x', FLOAT, ['batch', width])],
    outputs: [value('y', FLOAT, ['batch', width])],
    weights: names.slice(1).map((_, i) => weight(`w${i}`, [width, width], randomFloats(width * width))),
    nodes: names.slice(1).map((name, i) => node('MatMul', [names[i], `w${i}`], [name])),
  });
}

/** Much work for a small file, in proportion to the rows: x [batch, 1024] through one matrix, many times. */
function slow({ width = 1024, layers = 200 } = {}) {
  const names = Array.from({ length: layers + 1 }, (_, i) => (i === 0 ? 'x' : i === layers ? 'y' : `h${i}`));
  return writeModel({
    inputs: [value('x', FLOAT, ['batch', width])],
    outputs: [value('y', FLOAT, ['batch', width])],
    weights: [
      weight(
        'w',
        [width, width],
        randomFloats(width * width).map((number) => number / width),
      ),
    ],
    nodes: names.slice(1).map((name, i) => node('MatMul', [names[i], 'w'], [name])),
  });
}

/**
 * Writes the models as a repository.
 * @param {string} folder
 */
export function writeModels(folder) {
  const models = { picture: picture(), rows: rows(), large: rows({ width: 1024, layers: 25 }), slow: slow() };
  for (const [name, bytes] of Object.entries(models)) {
    const target = path.join(folder, name, '1');
    mkdirSync(target, { recursive: true });
    writeFileSync(path.join(target, 'model.onnx'), bytes);
  }
}

/**
 * A request with raw bytes.
 * @param {string} name of the input
 * @param {number[]} shape
 */
export function binaryRequest(name, shape) {
  const data = randomFloats(shape.reduce((a, b) => a * b, 1));
  const raw = Buffer.from(data.buffer);
  const input = { name, shape, datatype: 'FP32', parameters: { binary_data_size: raw.length } };
  const head = Buffer.from(JSON.stringify({ inputs: [input], parameters: { binary_data_output: true } }));
  return { body: Buffer.concat([head, raw]), headers: { 'inference-header-content-length': String(head.length) } };
}

/**
 * Puts the language model of `npm run bench -- generate` into a repository, with a tokenizer that has a word for each token. Requests
 * send tokens.
 * @param {string} folder
 * @param {string} source of the model
 * @param {string} dtype
 */
export function writeGenerator(folder, source, dtype) {
  mkdirSync(folder);
  symlinkSync(path.join(source, 'onnx'), path.join(folder, 'onnx'));
  const config = JSON.parse(readFileSync(path.join(source, 'config.json'), 'utf8'));
  const vocab = Object.fromEntries(Array.from({ length: config.vocab_size }, (_, id) => [`w${id}`, id]));
  const files = {
    'config.json': config,
    'model.json': { dtype },
    'tokenizer.json': {
      version: '1.0',
      added_tokens: [],
      normalizer: null,
      pre_tokenizer: { type: 'Whitespace' },
      post_processor: null,
      decoder: null,
      model: { type: 'WordLevel', vocab, unk_token: 'w0' },
    },
    'tokenizer_config.json': {},
  };
  for (const [name, content] of Object.entries(files)) writeFileSync(path.join(folder, name), JSON.stringify(content));
}

// Encoders as the Hub has them, for tests: the state of a token is a row of a table, and that of padding is far from all others.

import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { FLOAT, INT64, node, value, weight, writeModel } from '../../../__test__/onnx/model-writer.mjs';

export const WIDTH = 4;

const TOKENIZER = fileURLToPath(new URL('../../../__test__/documentation/files/tokenizer.json', import.meta.url));

/** The words of the tokenizer; the first two are padding and what it does not know. */
const WORDS = ['[PAD]', '[UNK]', 'cat', 'dog', 'horse', 'bread', 'cheese', 'fish', 'car', 'train', 'bicycle'];

/** Padding that is counted shows in any pooling. */
const TABLE = WORDS.map((_, id) => Array.from({ length: WIDTH }, (_, i) => (id === 0 ? 1000 : Math.fround(Math.sin(7 * id + 3 * i)))));

/** The states of a text's tokens. @param {string} text */
export const statesOf = (text) => text.split(' ').map((word) => TABLE[WORDS.indexOf(word)]);

/** Nodes behind the states, and what they are declared as: the sizes have the names that exports give them. */
const OUTPUTS = {
  last_hidden_state: [value('last_hidden_state', FLOAT, ['batch', 'sequence', 'hidden_size']), []],
  token_embeddings: [value('token_embeddings', FLOAT, ['batch', 'sequence', 'hidden_size']), [node('Identity', ['last_hidden_state'], ['token_embeddings'])]],
  states_of_mine: [value('states_of_mine', FLOAT, ['batch', 'sequence', 'hidden_size']), [node('Identity', ['last_hidden_state'], ['states_of_mine'])]],
  pooler_output: [
    value('pooler_output', FLOAT, ['batch', 'Addpooler_output_dim_1']),
    [node('ReduceMax', ['last_hidden_state'], ['pooled'], { axes: { ints: [1] }, keepdims: { i: 0 } }), node('Tanh', ['pooled'], ['pooler_output'])],
  ],
  // The first token twice: no pooling of the states gives that.
  sentence_embedding: [
    value('sentence_embedding', FLOAT, ['batch', 'sentence_width']),
    [node('Gather', ['last_hidden_state', 'first'], ['one'], { axis: { i: 1 } }), node('Concat', ['one', 'one'], ['sentence_embedding'], { axis: { i: 1 } })],
  ],
  logits: [
    value('logits', FLOAT, ['batch', 2]),
    [node('Gather', ['last_hidden_state', 'first'], ['row'], { axis: { i: 1 } }), node('MatMul', ['row', 'classes'], ['logits'])],
  ],
};

/**
 * The bytes of an encoder.
 * @param {(keyof typeof OUTPUTS)[]} outputs
 * @param {{ mask?: boolean, batch?: string | number, words?: number, infinite?: number }} [options] whether it has the input
 *   attention_mask, its first dimension, how many of the tokenizer's words it knows, and one whose state is infinite
 */
export function encoder(outputs, { mask = true, batch = 'batch', words = WORDS.length, infinite = -1 } = {}) {
  const chosen = outputs.map((name) => /** @type {[object, object[]]} */ (OUTPUTS[name]));
  const ints = ['input_ids', ...(mask ? ['attention_mask', 'token_type_ids'] : [])];
  return writeModel({
    inputs: ints.map((name) => value(name, INT64, [batch, 'sequence'])),
    outputs: chosen.map(([output]) => output),
    weights: [
      weight('table', [words, WIDTH], Float32Array.from(TABLE.slice(0, words).flatMap((row, id) => (id === infinite ? row.map(() => Infinity) : row)))),
      weight('first', [], BigInt64Array.of(0n)),
      weight(
        'classes',
        [WIDTH, 2],
        Float32Array.from({ length: 2 * WIDTH }, (_, i) => i),
      ),
    ],
    nodes: [node('Gather', ['table', 'input_ids'], ['last_hidden_state']), ...chosen.flatMap(([, nodes]) => nodes)],
  });
}

/**
 * The bytes of a decoder whose states are the sums of those so far, also of those in its cache.
 * @param {('last_hidden_state' | 'logits')[]} outputs
 */
export function decoder(outputs) {
  const cache = (/** @type {string} */ name, /** @type {string} */ length) => value(name, FLOAT, ['batch', 1, length, WIDTH]);
  const declared = {
    last_hidden_state: value('last_hidden_state', FLOAT, ['batch', 'sequence', WIDTH]),
    logits: value('logits', FLOAT, ['batch', 'sequence', WIDTH]),
  };
  return writeModel({
    inputs: [
      ...['input_ids', 'position_ids'].map((name) => value(name, INT64, ['batch', 'sequence'])),
      value('attention_mask', INT64, ['batch', 'total']),
      cache('past_key_values.0.key', 'past'),
    ],
    outputs: [...outputs.map((name) => declared[name]), cache('present.0.key', 'total')],
    weights: [
      weight('table', [WORDS.length, WIDTH], Float32Array.from(TABLE.flat())),
      weight('axis', [], BigInt64Array.of(2n)),
      weight('heads', [1], BigInt64Array.of(1n)),
    ],
    nodes: [
      node('Gather', ['table', 'input_ids'], ['embedded']),
      node('Unsqueeze', ['embedded', 'heads'], ['keys']),
      node('Concat', ['past_key_values.0.key', 'keys'], ['present.0.key'], { axis: { i: 2 } }),
      node('CumSum', ['present.0.key', 'axis'], ['sums']),
      node('Squeeze', ['sums', 'heads'], ['states']),
      ...outputs.map((name) => node('Identity', ['states'], [name])),
    ],
  });
}

/**
 * Files of a folder as sentence-transformers writes it.
 * @param {string} name
 * @param {Uint8Array} model
 * @param {Record<string, object>} [files] beside the weights
 */
export const sentenceFiles = (name, model, files = {}) => ({
  [path.join(name, 'onnx/model.onnx')]: model,
  [path.join(name, 'tokenizer.json')]: TOKENIZER,
  [path.join(name, 'tokenizer_config.json')]: { pad_token: '[PAD]' },
  [path.join(name, 'config.json')]: { max_position_embeddings: 64 },
  ...Object.fromEntries(Object.entries(files).map(([file, content]) => [path.join(name, file), content])),
});

const step = (/** @type {number} */ idx, /** @type {string} */ kind, place = `${idx}_${kind}`) => ({
  idx,
  name: String(idx),
  path: place,
  type: `sentence_transformers.models.${kind}`,
});

/** modules.json. @param {string[]} kinds behind the transformer */
export const modules = (...kinds) => [step(0, 'Transformer', ''), ...kinds.map((kind, i) => step(i + 1, kind))];

// Writes the folder of a tiny BERT with random weights, as `@huggingface/transformers` loads it.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FLOAT, INT64, node, value, weight, writeModel } from '../../onnx/model-writer.mjs';
import { float32, floats, int64s } from './tensors.mjs';

const HIDDEN = 32;
const HEADS = 4;
const LAYERS = 2;
const INTERMEDIATE = 64;
const POSITIONS = 64;

const SPECIAL = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];
const WORDS = 'a the cat dog sat on mat rug was is resting green leaves turn sun ##light into sugar how do plants eat ? . ,';
const VOCABULARY = [...SPECIAL, ...WORDS.split(' ')];

const i = (number) => ({ i: number });
const ints = (...numbers) => ({ ints: numbers });

/** Collects nodes and weights; every method adds to the graph and gives the name of its result. */
class Graph {
  nodes = [];
  weights = [];
  #count = 0;

  weight({ shape, data }) {
    const name = `w${this.weights.length}`;
    this.weights.push(weight(name, shape, data));
    return name;
  }

  add(operator, inputs, attributes, output = `t${this.#count++}`) {
    this.nodes.push(node(operator, inputs, [output], attributes, `${operator}_${this.nodes.length}`));
    return output;
  }

  linear(x, from, to) {
    const product = this.add('MatMul', [x, this.weight(float32([from, to], -0.3, 0.3))]);
    return this.add('Add', [product, this.weight(float32([to], -0.1, 0.1))]);
  }

  normalized(x, output) {
    const parameters = [this.weight(float32([HIDDEN], 0.8, 1.2)), this.weight(float32([HIDDEN], -0.1, 0.1))];
    return this.add('LayerNormalization', [x, ...parameters], { axis: i(-1), epsilon: { f: 1e-12 } }, output);
  }

  /** [batch, sequence, hidden] to [batch, heads, ...], the last two axes as `order` says. */
  heads(x, order) {
    const split = this.add('Reshape', [x, this.weight(int64s(0, 0, HEADS, HIDDEN / HEADS))]);
    return this.add('Transpose', [split], { perm: ints(0, ...order) });
  }

  attention(x, mask) {
    const queries = this.heads(this.linear(x, HIDDEN, HIDDEN), [2, 1, 3]);
    const keys = this.heads(this.linear(x, HIDDEN, HIDDEN), [2, 3, 1]);
    const values = this.heads(this.linear(x, HIDDEN, HIDDEN), [2, 1, 3]);
    const scores = this.add('MatMul', [queries, keys]);
    const scaled = this.add('Div', [scores, this.weight(floats([], Math.sqrt(HIDDEN / HEADS)))]);
    const weights = this.add('Softmax', [this.add('Add', [scaled, mask])], { axis: i(-1) });
    const joined = this.add('Transpose', [this.add('MatMul', [weights, values])], { perm: ints(0, 2, 1, 3) });
    return this.linear(this.add('Reshape', [joined, this.weight(int64s(0, 0, HIDDEN))]), HIDDEN, HIDDEN);
  }

  /** x * 0.5 * (1 + erf(x / sqrt(2))), as it is exported. */
  gelu(x) {
    const erf = this.add('Erf', [this.add('Div', [x, this.weight(floats([], Math.SQRT2))])]);
    const plusOne = this.add('Add', [erf, this.weight(floats([], 1))]);
    return this.add('Mul', [this.add('Mul', [x, plusOne]), this.weight(floats([], 0.5))]);
  }

  layer(x, mask, output) {
    const attended = this.normalized(this.add('Add', [x, this.attention(x, mask)]));
    const inner = this.gelu(this.linear(attended, HIDDEN, INTERMEDIATE));
    return this.normalized(this.add('Add', [attended, this.linear(inner, INTERMEDIATE, HIDDEN)]), output);
  }

  /** The first rows of the table of positions, as many as the tokens. */
  positions(tokens) {
    const length = this.add('Gather', [this.add('Shape', [tokens]), this.weight(int64s(1))], { axis: i(0) });
    const table = this.weight(float32([1, POSITIONS, HIDDEN], -0.5, 0.5));
    return this.add('Slice', [table, this.weight(int64s(0)), length, this.weight(int64s(1))]);
  }

  /** 0 where there is a token, and a large negative number where there is padding. */
  mask(attention) {
    const wide = this.add('Unsqueeze', [attention, this.weight(int64s(1, 2))]);
    const absent = this.add('Sub', [this.weight(floats([], 1)), this.add('Cast', [wide], { to: i(FLOAT) })]);
    return this.add('Mul', [absent, this.weight(floats([], -10000))]);
  }
}

/** @returns {Uint8Array} an ONNX file with the inputs and the output of an exported BertModel */
function bertModel() {
  const graph = new Graph();
  const words = graph.add('Gather', [graph.weight(float32([VOCABULARY.length, HIDDEN], -1, 1)), 'input_ids']);
  const types = graph.add('Gather', [graph.weight(float32([2, HIDDEN], -0.5, 0.5)), 'token_type_ids']);
  const embedded = graph.add('Add', [graph.add('Add', [words, types]), graph.positions('input_ids')]);
  const mask = graph.mask('attention_mask');
  let x = graph.normalized(embedded);
  for (let layer = 1; layer <= LAYERS; layer++) {
    x = graph.layer(x, mask, layer === LAYERS ? 'last_hidden_state' : undefined);
  }
  const shape = ['batch_size', 'sequence_length'];
  return writeModel({
    inputs: ['input_ids', 'attention_mask', 'token_type_ids'].map((name) => value(name, INT64, shape)),
    outputs: [value('last_hidden_state', FLOAT, [...shape, HIDDEN])],
    nodes: graph.nodes,
    weights: graph.weights,
  });
}

const special = (content) => ({
  id: VOCABULARY.indexOf(content),
  content,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: true,
});
const only = (content) => ({ id: content, ids: [VOCABULARY.indexOf(content)], tokens: [content] });
const piece = (id) => ({ SpecialToken: { id, type_id: 0 } });
const sequence = (id, type) => ({ Sequence: { id, type_id: type } });

const TOKENIZER = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: SPECIAL.map(special),
  normalizer: {
    type: 'BertNormalizer',
    clean_text: true,
    handle_chinese_chars: true,
    strip_accents: null,
    lowercase: true,
  },
  pre_tokenizer: { type: 'BertPreTokenizer' },
  post_processor: {
    type: 'TemplateProcessing',
    single: [piece('[CLS]'), sequence('A', 0), piece('[SEP]')],
    pair: [piece('[CLS]'), sequence('A', 0), piece('[SEP]'), sequence('B', 1), piece('[SEP]')],
    special_tokens: { '[CLS]': only('[CLS]'), '[SEP]': only('[SEP]') },
  },
  decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
  model: {
    type: 'WordPiece',
    unk_token: '[UNK]',
    continuing_subword_prefix: '##',
    max_input_chars_per_word: 100,
    vocab: Object.fromEntries(VOCABULARY.map((token, id) => [token, id])),
  },
};

const TOKENIZER_CONFIG = {
  tokenizer_class: 'BertTokenizer',
  do_lower_case: true,
  model_max_length: POSITIONS,
  unk_token: '[UNK]',
  sep_token: '[SEP]',
  pad_token: '[PAD]',
  cls_token: '[CLS]',
  mask_token: '[MASK]',
};

const CONFIG = {
  model_type: 'bert',
  architectures: ['BertModel'],
  vocab_size: VOCABULARY.length,
  hidden_size: HIDDEN,
  num_hidden_layers: LAYERS,
  num_attention_heads: HEADS,
  intermediate_size: INTERMEDIATE,
  max_position_embeddings: POSITIONS,
  type_vocab_size: 2,
  pad_token_id: 0,
};

/**
 * Writes the folder: config.json, tokenizer.json, tokenizer_config.json and onnx/model.onnx.
 *
 * @param {string} directory is made where it does not exist
 */
export function writeBert(directory) {
  mkdirSync(join(directory, 'onnx'), { recursive: true });
  const files = { 'config.json': CONFIG, 'tokenizer.json': TOKENIZER, 'tokenizer_config.json': TOKENIZER_CONFIG };
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(directory, name), JSON.stringify(content));
  }
  writeFileSync(join(directory, 'onnx', 'model.onnx'), bertModel());
}

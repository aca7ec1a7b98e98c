// A sentence encoder of the size of all-MiniLM-L6-v2 in the form in which encoders are published, with free sizes, a tokenizer, and texts.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, say } from '../../scripts/process.mjs';
import { rewriteIfStale } from '../../scripts/rewrite-stale.mjs';
import { Layers } from './layers.mjs';
import { randomOf } from './network.mjs';
import { quantizeDynamically } from './quantized.mjs';
import { writeNetwork } from './reference.mjs';
import { sources } from './write.mjs';

const SIZES = { layers: 6, width: 384, heads: 12, vocabulary: 30522, positions: 512, texts: 500 };

/** @typedef {typeof SIZES} Sizes */

const SPECIAL = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];

/** @param {Sizes} [sizes] */
export function encoder({ layers, width, heads, vocabulary, positions } = SIZES) {
  const n = new Layers('embedder');
  const epsilon = 1e-12;
  const free = ['batch_size', 'sequence_length'];
  const [ids, mask, types] = ['input_ids', 'attention_mask', 'token_type_ids'].map((name) => n.input(name, 'int64', free, () => 1));
  const length = n.node('Gather', [n.node('Shape', [ids], {}, [2]), n.integers(1)], { axis: 0 }, []);
  const bounds = [n.integers([0]), n.node('Unsqueeze', [length, n.integers([0])], {}, [1]), n.integers([1])];
  const all = Array.from({ length: positions }, (_, i) => i);
  const places = n.node('Slice', [n.integers(all, [1, positions]), ...bounds], {}, [1, 'sequence_length']);
  const words = n.add(n.gather(n.weight([vocabulary, width], 0.5), ids), n.gather(n.weight([2, width], 0.1), types));
  let x = n.layerNorm(n.add(words, n.gather(n.weight([positions, width], 0.1), places)), epsilon);
  const masked = n.masked(mask);
  for (let layer = 0; layer < layers; layer++) {
    x = n.layerNorm(n.add(n.attention(x, heads, { mask: masked }), x), epsilon);
    x = n.layerNorm(n.add(n.linear(n.gelu(n.linear(x, 4 * width)), width), x), epsilon);
  }
  n.output(x, 'last_hidden_state');
  return n;
}

/** Different words that one can pronounce. @param {number} count */
export function wordsOf(count) {
  const syllables = [...'bdfgklmnprstvz'].flatMap((consonant) => [...'aeiou'].map((vowel) => consonant + vowel));
  const { length } = syllables;
  return Array.from({ length: count }, (_, i) => [i, Math.floor(i / length), Math.floor(i / length ** 2)].map((at) => syllables[at % length]).join(''));
}

/** @param {string[]} tokens */
function tokenizer(tokens) {
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  const special = (/** @type {string} */ id, type = 0) => ({ SpecialToken: { id, type_id: type } });
  const sequence = (/** @type {string} */ id, type = 0) => ({ Sequence: { id, type_id: type } });
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: SPECIAL.map((content) => ({ id: vocab[content], content, ...flags })),
    normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: {
      type: 'TemplateProcessing',
      single: [special('[CLS]'), sequence('A'), special('[SEP]')],
      pair: [special('[CLS]'), sequence('A'), special('[SEP]'), sequence('B', 1), special('[SEP]', 1)],
      special_tokens: Object.fromEntries(['[CLS]', '[SEP]'].map((id) => [id, { id, ids: [vocab[id]], tokens: [id] }])),
    },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab },
  };
}

/** Texts of 8 words and more, most of them short and few long, as in corpora. @param {string[]} words @param {Sizes} sizes */
function textsOf(words, { texts, positions }) {
  const { normal, below } = randomOf('texts');
  return Array.from({ length: texts }, () => {
    const length = Math.floor(Math.min(positions - 2, Math.max(8, Math.exp(4 + 0.9 * normal()))));
    return Array.from({ length }, () => words[below(words.length)]).join(' ');
  });
}

/**
 * Writes a model and its quantized form as Transformers.js finds them in a folder.
 *
 * @param {string} folder
 * @param {() => Layers} network
 */
export function writeModelFiles(folder, network) {
  mkdirSync(join(folder, 'onnx'), { recursive: true });
  writeNetwork(network(), join(folder, 'onnx', 'model.onnx'));
  writeNetwork(quantizeDynamically(network()), join(folder, 'onnx', 'model_quantized.onnx'));
}

/**
 * Writes the folder that Transformers.js takes as a model.
 *
 * @param {string} folder
 * @param {Sizes} [sizes]
 */
export function writeEncoder(folder, sizes = SIZES) {
  const { layers, width, heads, vocabulary, positions } = sizes;
  const words = wordsOf(vocabulary - SPECIAL.length);
  const files = {
    'config.json': {
      architectures: ['BertModel'],
      model_type: 'bert',
      hidden_size: width,
      num_attention_heads: heads,
      num_hidden_layers: layers,
      intermediate_size: 4 * width,
      max_position_embeddings: positions,
      vocab_size: vocabulary,
      type_vocab_size: 2,
      pad_token_id: 0,
      hidden_act: 'gelu',
      layer_norm_eps: 1e-12,
    },
    'tokenizer.json': tokenizer([...SPECIAL, ...words]),
    'tokenizer_config.json': {
      tokenizer_class: 'BertTokenizer',
      do_lower_case: true,
      model_max_length: positions,
      ...Object.fromEntries(SPECIAL.map((token) => [`${token.slice(1, -1).toLowerCase()}_token`, token])),
    },
    'texts.json': textsOf(words, sizes),
  };
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), JSON.stringify(content));
  writeModelFiles(folder, () => encoder(sizes));
}

/**
 * Writes the encoder of the benchmarks, if it is missing or other sources wrote it.
 *
 * @returns {Promise<string>} its folder
 */
export async function writeEmbedder() {
  const folder = join(root, 'target', 'embedder');
  await rewriteIfStale(folder, sources(), () => {
    say('model embedder');
    writeEncoder(folder);
  });
  return folder;
}

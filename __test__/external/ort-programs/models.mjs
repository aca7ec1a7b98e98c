// Writes the models of the programs: small ones with seeded random weights, in folders that Transformers.js takes as models.

import { cpSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { generateModels, sources as decoderSources } from '../../../bench/generate/models.mjs';
import { encoder, writeEncoder, writeModelFiles } from '../../../bench/zoo/embedder.mjs';
import { sources as networkSources } from '../../../bench/zoo/write.mjs';
import { rewriteIfStale } from '../../../scripts/rewrite-stale.mjs';

const ENCODER = { layers: 2, width: 64, heads: 4, vocabulary: 1000, positions: 128, texts: 40 };

/** Of the form of onnxruntime-genai, and with positions as an input and biases, as other exports have them. */
const DECODERS = { llm: [], 'llm-explicit': ['--explicit'] };

const DECODER_OPTIONS = ['--tiny', '--no-whisper', '--gguf', '', '--types', 'fp32,fp16,q8,q4,q4f16'];

const LABELS = ['anger', 'joy', 'surprise'];

const END = '<|endoftext|>';

/** The encoder with a pooler and a classifier behind it. */
function classifier() {
  const n = encoder(ENCODER);
  const [{ tensor: states }] = n.outputs.splice(0);
  const first = n.node('Gather', [states, n.constant(0, undefined, 'int64')], { axis: 1 }, ['batch_size', ENCODER.width]);
  n.output(n.gemm(n.node('Tanh', [n.gemm(first, ENCODER.width)]), LABELS.length), 'logits');
  return n;
}

/** @param {string} embedder folder of the encoder @param {string} folder */
function writeClassifier(embedder, folder) {
  writeModelFiles(folder, classifier);
  for (const name of ['tokenizer.json', 'tokenizer_config.json']) cpSync(join(embedder, name), join(folder, name));
  const config = {
    ...JSON.parse(readFileSync(join(embedder, 'config.json'), 'utf8')),
    architectures: ['BertForSequenceClassification'],
    id2label: { ...LABELS },
    label2id: Object.fromEntries(LABELS.map((label, i) => [label, i])),
  };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
}

/** Bytes, pairs of letters, and words that fill the vocabulary. @param {number} size */
function decoderTokenizer(size) {
  const isPrintable = (/** @type {number} */ byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let others = 256;
  const bytes = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isPrintable(byte) ? byte : others++));
  const letters = [...'abcdefghijklmnopqrstuvwxyz'];
  const merges = letters.flatMap((first) => letters.map((second) => [first, second]));
  const tokens = [...bytes, ...merges.map((pair) => pair.join(''))];
  while (tokens.length < size - 1) tokens.push(`<x${tokens.length}>`);
  tokens.push(END);
  const level = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  return {
    version: '1.0',
    added_tokens: [{ id: size - 1, content: END, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }],
    normalizer: null,
    pre_tokenizer: level,
    post_processor: null,
    decoder: level,
    model: { type: 'BPE', vocab: Object.fromEntries(tokens.map((token, id) => [token, id])), merges },
  };
}

/** @param {string} folder @param {string[]} options */
async function writeDecoder(folder, options) {
  const made = `${folder}-and-more`;
  await generateModels(made, [...DECODER_OPTIONS, ...options]);
  renameSync(join(made, 'decoder'), folder);
  rmSync(made, { recursive: true });
  const { vocab_size: size, max_position_embeddings: longest } = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'));
  const settings = { tokenizer_class: 'GPT2Tokenizer', bos_token: END, eos_token: END, pad_token: END, model_max_length: longest };
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(decoderTokenizer(size)));
  writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify(settings));
}

/** Writes the models if their generators have changed. @param {string} folder */
export async function writeModels(folder) {
  const source = readFileSync(new URL(import.meta.url), 'utf8') + networkSources() + decoderSources();
  await rewriteIfStale(folder, source, async () => {
    const embedder = join(folder, 'embedder');
    writeEncoder(embedder, ENCODER);
    // fastembed reads the special tokens from here.
    const tokens = { unk_token: '[UNK]', cls_token: '[CLS]', sep_token: '[SEP]', pad_token: '[PAD]', mask_token: '[MASK]' };
    writeFileSync(join(embedder, 'special_tokens_map.json'), JSON.stringify(tokens));
    writeClassifier(embedder, join(folder, 'classifier'));
    for (const [name, options] of Object.entries(DECODERS)) await writeDecoder(join(folder, name), options);
  });
}

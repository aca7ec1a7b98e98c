// Writes folders of language models as Transformers.js has them. The tokens are bytes, and two marks around messages.

import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { languageModel } from '../onnx/language-model.mjs';

/** Tokens behind those of the 256 bytes. */
export const [BEGIN, END] = [256, 257];

const MARKS = ['<|im_start|>', '<|im_end|>'];

export const VOCABULARY = 256 + MARKS.length;

/** Letters, and the end of an answer after some of them. */
export const LETTERS = { vocabulary: VOCABULARY, next: (/** @type {number} */ sum) => (sum % 23 === 22 ? END : 97 + (sum % 26)) };

/** As the models of many makers have it. */
export const TEMPLATE =
  "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + eos_token + '\\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/** The characters that stand for bytes in the vocabulary: a byte's own where it can be printed, others from 256 on. */
function byteCharacters() {
  const isPrintable = (/** @type {number} */ byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
  let other = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isPrintable(byte) ? byte : other++));
}

const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };

/** A tokenizer.json. */
export const TOKENIZER = {
  version: '1.0',
  added_tokens: MARKS.map((content, i) => ({ id: 256 + i, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true })),
  normalizer: null,
  pre_tokenizer: byteLevel,
  post_processor: null,
  decoder: byteLevel,
  model: { type: 'BPE', vocab: Object.fromEntries([...byteCharacters(), ...MARKS].map((text, id) => [text, id])), merges: [] },
};

/**
 * Writes a folder.
 * @param {string} folder
 * @param {object} [content]
 * @param {import('../onnx/language-model.mjs').Style} [content.style] of the model
 * @param {Uint8Array} [content.bytes] another model
 * @param {string[]} [content.models] names of the files in onnx/
 * @param {object} [content.config] config.json
 * @param {object} [content.generation] generation_config.json
 * @param {object} [content.tokenizerConfig] what tokenizer_config.json has beside, or instead of, a chat template
 */
export async function writeFolder(
  folder,
  { style = LETTERS, bytes = languageModel(style), models = ['model.onnx'], config = {}, generation = {}, tokenizerConfig = {} } = {},
) {
  const files = {
    'config.json': { max_position_embeddings: 256, ...config },
    'generation_config.json': { eos_token_id: END, ...generation },
    'tokenizer.json': TOKENIZER,
    'tokenizer_config.json': { eos_token: MARKS[1], chat_template: TEMPLATE, ...tokenizerConfig },
  };
  await mkdir(path.join(folder, 'onnx'), { recursive: true });
  const written = Object.entries(files).map(([name, content]) => writeFile(path.join(folder, name), JSON.stringify(content)));
  await Promise.all([...written, ...models.map((name) => writeFile(path.join(folder, 'onnx', name), bytes))]);
  return folder;
}

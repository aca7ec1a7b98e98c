// The model in this folder, for which `train.py` tells how it was made. Its tokens are the characters of ASCII.
import { PromptError } from './generator.mjs';

const isAscii = (/** @type {string} */ text) => /^[\x00-\x7f]*$/.test(text);

/** @type {import('./chat.mjs').TextTokenizer} */
export const asciiTokenizer = {
  encode(text) {
    if (!isAscii(text)) throw new PromptError(`this model reads only ASCII, and not ${JSON.stringify(text)}`);
    return { ids: Array.from(text, (character) => character.charCodeAt(0)) };
  },
  decode: (ids) => String.fromCharCode(...ids),
};

/** @type {import('./folder.mjs').LanguageModel} */
export const TINY_MODEL = {
  file: new URL('model.onnx', import.meta.url),
  maxLength: Infinity,
  tokenizer: asciiTokenizer,
  // It has learned single lines and no conversations.
  render: null,
  stop: new Set(['\n'.charCodeAt(0)]),
  sampling: { do_sample: true, temperature: 0.8, top_k: 0 },
};

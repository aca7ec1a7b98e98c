// A folder of a model for texts as Transformers.js has it: tokenizer and configuration beside the weights.

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { Template } from '@huggingface/jinja';
import { Tokenizer } from '@huggingface/tokenizers';
import { amount, invalid } from '../errors.js';
import { RepositoryError } from '../registry/repository.js';
import { readGenerationConfig } from './generation-config.js';
import { readJson } from './json.js';
import { readSentence } from './sentence.js';
import { tokenBytes } from './token-bytes.js';

/** @typedef {{ role: string, content: string }} Message */

/**
 * What is used of a tokenizer. The declarations of the package import each other in a form that Node's resolution refuses, so ours do not
 * name them.
 * @typedef {object} TextTokenizer
 * @property {(text: string, options?: { add_special_tokens?: boolean }) => { ids: number[] }} encode
 * @property {(ids: number[], options?: { skip_special_tokens?: boolean, clean_up_tokenization_spaces?: boolean }) => string} decode
 * @property {(token: string) => number | undefined} token_to_id
 * @property {(id: number) => string | undefined} id_to_token
 */

/**
 * What a model for texts has beside its weights.
 * @typedef {object} TextFolder
 * @property {TextTokenizer} tokenizer
 * @property {number} maxLength how many tokens the model can read; Infinity if the folder does not say it
 * @property {((messages: readonly Message[], templateArguments?: Record<string, unknown>) => string) | null} render the chat template,
 *   if there is one; it reads the arguments as variables
 * @property {ReadonlySet<number>} stop tokens that end a text
 * @property {import('./generation-config.js').GenerationConfig} generation how texts are generated
 * @property {import('./sentence.js').Sentence} sentence how tokens become one vector
 * @property {number} padding the token behind the end of shorter texts
 * @property {(id: number) => Uint8Array} bytesOf a token
 */

/** No token is longer than this in any vocabulary in use: a longer text need not be read to know that it is too long. */
const MOST_CHARACTERS = 64;

/** Longer texts are not read, whatever the model can: reading one holds up all others for about a second. */
const MAX_CHARACTERS = 2 ** 20;

/**
 * The tokens of a text.
 * @param {Pick<TextFolder, 'tokenizer' | 'maxLength'>} folder
 * @param {string} text
 * @param {{ what: string, param: string, isWhole?: boolean }} options `what` and `param` name it in errors; unless it is whole,
 *   no marks of begin and end are added
 * @returns {number[]}
 * @throws {import('../errors.js').ServeError} if the model cannot read so many
 */
export function encodeText({ tokenizer, maxLength }, text, { what, param, isWhole = true }) {
  const tooLong = (/** @type {string} */ size) =>
    invalid(`${what} has ${size}, and the model reads at most ${maxLength} tokens`, { param, code: 'context_length_exceeded' });
  if (text.length > MAX_CHARACTERS)
    throw invalid(`${what} has ${amount(text.length, 'character')}, expected at most ${MAX_CHARACTERS}`, { param, code: 'context_length_exceeded' });
  if (text.length > maxLength * MOST_CHARACTERS) throw tooLong(`${text.length} characters`);
  const { ids } = tokenizer.encode(text, { add_special_tokens: isWhole });
  if (ids.includes(/** @type {any} */ (undefined))) throw invalid(`${what} has characters for which the tokenizer has no token`, { param });
  if (ids.length > maxLength) throw tooLong(`${ids.length} tokens`);
  return ids;
}

/** The text of a special token, which a file has as it is or in an object. @param {any} token @returns {string | undefined} */
const contentOf = (token) => token?.content ?? token ?? undefined;

/**
 * The chat template: a file of its own, one text, or the default one of several.
 * @param {string} folder
 * @param {any} tokenizerConfig
 * @returns {Promise<string | undefined>}
 */
async function templateSource(folder, { chat_template: given }) {
  const file = path.join(folder, 'chat_template.jinja');
  if (existsSync(file)) return readFile(file, 'utf8');
  return Array.isArray(given) ? given.find(({ name }) => name === 'default')?.template : given;
}

/**
 * @param {string | undefined} source
 * @param {any} tokenizerConfig
 * @returns {TextFolder['render']}
 */
function renderer(source, tokenizerConfig) {
  if (source === undefined || source === null) return null;
  const template = new Template(source);
  const names = ['bos_token', 'eos_token', 'pad_token', 'unk_token'];
  const tokens = Object.fromEntries(names.map((name) => [name, contentOf(tokenizerConfig[name])]));
  // transformers sets them where there are none, and templates ask whether they are.
  const nothing = { tools: null, documents: null };
  return (messages, templateArguments) => {
    try {
      return template.render({ ...tokens, ...nothing, ...templateArguments, messages, add_generation_prompt: true });
    } catch (cause) {
      throw invalid(`the model's chat template refuses the conversation: ${/** @type {Error} */ (cause).message}`, { param: 'messages', cause });
    }
  };
}

/**
 * How texts are generated: as in transformers, config.json counts where there is no file of its own. Its `max_length` does not: many
 * have the 20 that transformers takes where nobody says anything.
 * @param {string} folder
 * @param {any} config config.json
 * @param {any} generation generation_config.json
 * @returns {[content: Record<string, any>, where: string]}
 */
const generationFile = (folder, config, generation) =>
  generation === null ? [{ ...config, max_length: null }, path.join(folder, 'config.json')] : [generation, path.join(folder, 'generation_config.json')];

/**
 * Reads what lies beside the weights.
 * @param {string} folder
 * @returns {Promise<TextFolder>}
 * @throws {RepositoryError}
 */
export async function readTextFolder(folder) {
  const names = ['tokenizer.json', 'tokenizer_config.json', 'config.json', 'generation_config.json'];
  const [tokenizerFile, tokenizerConfig, config, generation] = await Promise.all(names.map((name) => readJson(path.join(folder, name))));
  const missing = names.slice(0, 2).filter((_, i) => [tokenizerFile, tokenizerConfig][i] === null);
  if (missing.length > 0) throw new RepositoryError(`there is no ${missing.join(', ')} in ${folder}`);
  const sentence = await readSentence(folder);
  const tokenizer = new Tokenizer({ ...tokenizerFile, padding: null, truncation: null }, tokenizerConfig);
  const idOf = (/** @type {any} */ token) => (contentOf(token) === undefined ? undefined : tokenizer.token_to_id(/** @type {string} */ (contentOf(token))));
  const ids = [{ ...config, ...generation }.eos_token_id ?? [], idOf(tokenizerConfig.eos_token) ?? []].flat();
  // Tokenizers without a limit name a number beyond all texts, models without one often -1.
  const sizes = [config, config?.text_config].flatMap((/** @type {any} */ part) => [part?.max_position_embeddings, part?.n_positions]);
  const lengths = [...sizes, tokenizerConfig.model_max_length];
  return {
    tokenizer,
    maxLength: Math.min(...lengths.filter((length) => typeof length === 'number' && length > 0)),
    render: renderer(await templateSource(folder, tokenizerConfig), tokenizerConfig),
    stop: new Set(ids),
    generation: readGenerationConfig(...generationFile(folder, config, generation)),
    sentence,
    padding: [config?.pad_token_id, idOf(tokenizerConfig.pad_token)].find((id) => id >= 0 && id < (config?.vocab_size ?? Infinity)) ?? 0,
    bytesOf: tokenBytes(tokenizer, tokenizerFile),
  };
}

// A folder of a language model as Transformers.js has it: the model in `onnx/`, the tokenizer and the configuration beside.
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { Template } from '@huggingface/jinja';
import { Tokenizer } from '@huggingface/tokenizers';
import { PromptError } from './generator.mjs';

/** A folder that is none of a language model, or lacks a file. */
export class FolderError extends Error {
  name = 'FolderError';
}

/**
 * What a chat needs to know of a model.
 * @typedef {object} LanguageModel
 * @property {string | URL} file
 * @property {number} maxLength how many tokens it can read; Infinity if the folder does not say it
 * @property {import('./chat.mjs').TextTokenizer} tokenizer
 * @property {((messages: import('./chat.mjs').Message[]) => string) | null} render the chat template, if it has one
 * @property {ReadonlySet<number>} stop tokens that end an answer
 * @property {import('./sampling.mjs').SamplingConfig} sampling
 */

/** Names of the files in `onnx/`, without .onnx, for the data types that are not in the name. */
const FILE_NAMES = /** @type {Record<string, string[]>} */ ({ fp32: ['model'], q8: ['model_quantized', 'model_q8'] });

const fileNames = (/** @type {string} */ dtype) => FILE_NAMES[dtype] ?? [`model_${dtype}`];

/**
 * The data types of the files in `onnx/`.
 * @param {string[]} files
 */
function dtypesOf(files) {
  const named = files.flatMap((file) => /^model_(.+)\.onnx$/.exec(file)?.[1] ?? []).filter((dtype) => dtype !== 'quantized');
  const others = Object.keys(FILE_NAMES).filter((dtype) => fileNames(dtype).some((name) => files.includes(`${name}.onnx`)));
  return [...new Set([...others, ...named])];
}

/**
 * The path of the model with weights of a data type.
 * @param {string} folder
 * @param {string} dtype
 */
async function modelFile(folder, dtype) {
  const onnx = path.join(folder, 'onnx');
  const files = existsSync(onnx) ? await readdir(onnx) : [];
  const names = fileNames(dtype).map((name) => `${name}.onnx`);
  const found = names.find((name) => files.includes(name));
  if (found !== undefined) return path.join(onnx, found);
  const dtypes = dtypesOf(files);
  const hint = dtypes.length === 0 ? '' : `; there is --dtype ${dtypes.join(', ')}`;
  throw new FolderError(`there is no ${names.join(' or ')} in ${onnx}${hint}`);
}

/**
 * @param {string} folder
 * @param {string} name
 */
async function readJson(folder, name) {
  const file = path.join(folder, name);
  if (!existsSync(file)) throw new FolderError(`there is no ${name} in ${folder}; expected a model for Transformers.js`);
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new FolderError(`${file} is not JSON: ${cause.message}`, { cause });
  }
}

/** The text of a special token, which a file has as it is or in an object. @param {any} token @returns {string | undefined} */
const contentOf = (token) => token?.content ?? token;

/**
 * The source of the chat template: a file of its own, one text, or the default one of several.
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
 * @returns {LanguageModel['render']}
 */
function renderer(source, tokenizerConfig) {
  if (source === undefined || source === null) return null;
  const template = new Template(source);
  const names = ['bos_token', 'eos_token', 'pad_token', 'unk_token'];
  const tokens = Object.fromEntries(names.map((name) => [name, contentOf(tokenizerConfig[name])]));
  return (messages) => {
    try {
      return template.render({ ...tokens, messages, add_generation_prompt: true });
    } catch (cause) {
      throw new PromptError(`the model's chat template refuses the conversation: ${/** @type {Error} */ (cause).message}`, { cause });
    }
  };
}

/**
 * The tokens that end an answer: those that the configuration names, and the tokenizer's own.
 * @param {any} config
 * @param {string | undefined} token
 * @param {Tokenizer} tokenizer
 */
function stopTokens({ eos_token_id: ids = [] }, token, tokenizer) {
  const own = token === undefined ? undefined : tokenizer.token_to_id(token);
  return new Set([ids, own ?? []].flat());
}

/**
 * Reads all files of a folder but the model itself.
 * @param {string} folder
 * @param {string} dtype of the weights: fp32, fp16, q8, q4, ...
 * @returns {Promise<LanguageModel>}
 * @throws {FolderError}
 */
export async function readFolder(folder, dtype) {
  const file = await modelFile(folder, dtype);
  const names = ['config.json', 'tokenizer.json', 'tokenizer_config.json'];
  const [config, tokenizerFile, tokenizerConfig] = await Promise.all(names.map((name) => readJson(folder, name)));
  const generation = existsSync(path.join(folder, 'generation_config.json')) ? await readJson(folder, 'generation_config.json') : {};
  const tokenizer = new Tokenizer({ ...tokenizerFile, padding: null, truncation: null }, tokenizerConfig);
  return {
    file,
    maxLength: config.max_position_embeddings ?? config.n_positions ?? Infinity,
    tokenizer,
    render: renderer(await templateSource(folder, tokenizerConfig), tokenizerConfig),
    stop: stopTokens({ ...config, ...generation }, contentOf(tokenizerConfig.eos_token), tokenizer),
    sampling: generation,
  };
}

// What sentence-transformers writes beside a model: which steps make a text's vector of its tokens' states.

import path from 'node:path';
import { POOLINGS } from '../models/pooling.js';
import { RepositoryError } from '../registry/repository.js';
import { readJson } from './json.js';

/**
 * The recipe of a text's vector.
 * @typedef {object} Sentence
 * @property {boolean} isGiven whether the folder has such a recipe
 * @property {import('../models/pooling.js').Pooling[] | null} pooling how states become one vector; null if the folder does not say
 * @property {boolean} normalize whether vectors have length 1; OpenAI's have, so they do where nothing says otherwise
 * @property {string[]} layers further steps, with weights of their own, that only a whole export of the model contains
 * @property {string} prompt in front of each text
 * @property {boolean} lowerCase whether texts are read in lower case
 * @property {number | undefined} maxLength in tokens, unless the setting says otherwise
 */

/** Steps behind the model that have no effect when it is used, or that this server does itself. */
const KNOWN_STEPS = ['Pooling', 'Normalize', 'Dropout'];

/** The poolings of 1_Pooling/config.json, in the order in which sentence-transformers joins their vectors. @type {[flag: string, name: string, import('../models/pooling.js').Pooling][]} */
const MODES = [
  ['pooling_mode_cls_token', 'cls', 'cls'],
  ['pooling_mode_max_tokens', 'max', 'max'],
  ['pooling_mode_mean_tokens', 'mean', 'mean'],
  ['pooling_mode_mean_sqrt_len_tokens', 'mean_sqrt_len_tokens', 'mean_sqrt_len'],
  ['pooling_mode_weightedmean_tokens', 'weightedmean', 'weightedmean'],
  ['pooling_mode_lasttoken', 'lasttoken', 'last'],
];

/**
 * @param {any} config of the folder `1_Pooling`
 * @param {string} where names it in errors
 * @returns {import('../models/pooling.js').Pooling[] | null}
 */
function poolingOf(config, where) {
  if (config === null) return null;
  // Older files have a flag for each mode, newer ones their names.
  const names = [config.pooling_mode ?? []].flat();
  const unknown = [
    ...names.filter((name) => !MODES.some(([, known, pooling]) => name === known || name === pooling)),
    ...Object.keys(config).filter((key) => key.startsWith('pooling_mode_') && config[key] === true && !MODES.some(([flag]) => flag === key)),
  ];
  if (unknown.length > 0) throw new RepositoryError(`${where} has the pooling ${unknown.join(', ')}; expected ${Object.keys(POOLINGS).join(', ')}`);
  const modes = MODES.filter(([flag, name, pooling]) => config[flag] === true || names.includes(name) || names.includes(pooling)).map(
    ([, , pooling]) => pooling,
  );
  if (modes.length === 0) throw new RepositoryError(`${where} names no pooling`);
  return modes;
}

/**
 * The text in front of each text, unless the caller says otherwise, which OpenAI's API has no words for.
 * @param {any} config config_sentence_transformers.json
 * @param {string} where names it in errors
 */
function promptOf(config, where) {
  const name = config?.default_prompt_name ?? null;
  if (name === null) return '';
  const prompt = config.prompts?.[name];
  if (typeof prompt !== 'string') throw new RepositoryError(`${where}: default_prompt_name is ${JSON.stringify(name)}, and prompts has no such string`);
  return prompt;
}

/**
 * Reads the recipe.
 * @param {string} folder
 * @returns {Promise<Sentence>}
 * @throws {RepositoryError} if it cannot be followed
 */
export async function readSentence(folder) {
  const [modules, config] = await Promise.all(['modules.json', 'config_sentence_transformers.json'].map((name) => readJson(path.join(folder, name))));
  if (modules !== null && !Array.isArray(modules)) throw new RepositoryError(`${path.join(folder, 'modules.json')} is no list`);
  /** @type {{ kind: string, place: string }[]} */
  const steps = (modules ?? []).map((/** @type {any} */ step) => ({ kind: String(step?.type).split('.').at(-1), place: String(step?.path ?? '') }));
  const placeOf = (/** @type {string} */ kind) => steps.find((step) => step.kind === kind)?.place;
  const poolingFile = path.join(folder, placeOf('Pooling') ?? '1_Pooling', 'config.json');
  const poolingConfig = await readJson(poolingFile);
  const sentence = await readJson(path.join(folder, steps[0]?.place ?? '', 'sentence_bert_config.json'));
  if (poolingConfig === null && placeOf('Pooling') !== undefined) throw new RepositoryError(`there is no ${poolingFile}, which modules.json names`);
  const prompt = promptOf(config, path.join(folder, 'config_sentence_transformers.json'));
  if (prompt !== '' && poolingConfig?.include_prompt === false) {
    throw new RepositoryError(`${poolingFile} leaves the prompt out of the vector (include_prompt), which is not supported; set "prompt" in model.json`);
  }
  return {
    isGiven: modules !== null || poolingConfig !== null,
    pooling: poolingOf(poolingConfig, poolingFile),
    normalize: modules === null || steps.some(({ kind }) => kind === 'Normalize'),
    // The first step is the model itself, whatever its makers call it.
    layers: steps
      .slice(1)
      .filter(({ kind }) => !KNOWN_STEPS.includes(kind))
      .map(({ kind, place }) => (place === '' ? kind : `${place} (${kind})`)),
    prompt,
    lowerCase: sentence?.do_lower_case === true,
    maxLength: sentence?.max_seq_length ?? undefined,
  };
}

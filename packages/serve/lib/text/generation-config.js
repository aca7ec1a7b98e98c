// How a model's makers want texts to be generated: generation_config.json of transformers.

import { RepositoryError } from '../registry/repository.js';

/**
 * What such a file says. What it leaves out has no effect.
 * @typedef {object} GenerationConfig
 * @property {import('./sampling.js').SamplingConfig} sampling
 * @property {number} repetition what the scores of tokens that prompt or text have are divided by; 1 has no effect
 * @property {import('./constraints.js').Constraints} constraints which tokens may not come
 * @property {number | null} maxTokens of an answer
 * @property {number | null} maxLength tokens of prompt and answer, where `maxTokens` is null
 * @property {number | null} minTokens of an answer
 * @property {number} minLength tokens of prompt and answer, where `minTokens` is null
 * @property {string[]} stop texts that end an answer
 * @property {string[]} ignored names of what has an effect in transformers and none here
 */

/** What is not supported, with the values that have no effect in transformers. */
const IGNORED = /** @type {Record<string, (value: any) => boolean>} */ ({
  typical_p: (value) => value === 1,
  epsilon_cutoff: (value) => value === 0,
  eta_cutoff: (value) => value === 0,
  top_h: () => false,
  num_beams: (value) => value === 1,
  num_beam_groups: (value) => value === 1,
  diversity_penalty: (value) => value === 0,
  penalty_alpha: (value) => value === 0,
  dola_layers: () => false,
  guidance_scale: (value) => value === 1,
  encoder_repetition_penalty: (value) => value === 1,
  encoder_no_repeat_ngram_size: (value) => value === 0,
  exponential_decay_length_penalty: () => false,
  sequence_bias: () => false,
  force_words_ids: () => false,
  constraints: () => false,
  forced_bos_token_id: () => false,
  forced_eos_token_id: () => false,
  forced_decoder_ids: () => false,
  token_healing: (value) => value === false,
  watermarking_config: () => false,
  max_time: () => false,
});

const isWhole = (/** @type {number} */ lowest) => (/** @type {any} */ value) => Number.isSafeInteger(value) && value >= lowest;
const isNumber = (/** @type {number} */ lowest, /** @type {number} */ highest) => (/** @type {any} */ value) =>
  typeof value === 'number' && value >= lowest && value <= highest;
const isTokens = (/** @type {any} */ value) => Array.isArray(value) && value.every(isWhole(0));
const isTexts = (/** @type {any} */ value) => [value].flat().every((text) => typeof text === 'string' && text !== '');

/** What is supported: which values each may have. */
const RULES = /** @type {Record<string, [test: (value: any) => boolean, expected: string]>} */ ({
  do_sample: [(value) => typeof value === 'boolean', 'true or false'],
  temperature: [isNumber(0, Infinity), 'a number from 0'],
  top_k: [isWhole(-1), 'a whole number from -1'],
  top_p: [isNumber(0, 1), 'a number from 0 to 1'],
  min_p: [isNumber(0, 1), 'a number from 0 to 1'],
  repetition_penalty: [(value) => isNumber(0, Infinity)(value) && value > 0, 'a number above 0'],
  no_repeat_ngram_size: [isWhole(0), 'a whole number from 0'],
  suppress_tokens: [isTokens, 'a list of tokens'],
  begin_suppress_tokens: [isTokens, 'a list of tokens'],
  bad_words_ids: [(value) => Array.isArray(value) && value.every((word) => isTokens(word) && word.length > 0), 'a list of lists of tokens'],
  max_new_tokens: [isWhole(1), 'a whole number from 1'],
  max_length: [isWhole(1), 'a whole number from 1'],
  min_new_tokens: [isWhole(0), 'a whole number from 0'],
  min_length: [isWhole(0), 'a whole number from 0'],
  stop_strings: [isTexts, 'a text, or a list of texts'],
});

/**
 * Reads the settings.
 * @param {Record<string, any>} file its content
 * @param {string} where names it in errors
 * @returns {GenerationConfig}
 * @throws {RepositoryError}
 */
export function readGenerationConfig(file, where) {
  const given = Object.fromEntries(Object.entries(file).filter(([, value]) => value !== null));
  for (const [name, [test, expected]] of Object.entries(RULES)) {
    if (Object.hasOwn(given, name) && !test(given[name])) {
      throw new RepositoryError(`${where}: ${name} is ${JSON.stringify(given[name])}, expected ${expected}`);
    }
  }
  const { do_sample, temperature, top_k, top_p, min_p } = given;
  return {
    sampling: { do_sample, temperature, top_k: top_k === -1 ? 0 : top_k, top_p, min_p },
    repetition: given.repetition_penalty ?? 1,
    constraints: {
      ngram: given.no_repeat_ngram_size ?? 0,
      suppressed: given.suppress_tokens ?? [],
      suppressedFirst: given.begin_suppress_tokens ?? [],
      badWords: given.bad_words_ids ?? [],
    },
    maxTokens: given.max_new_tokens ?? null,
    maxLength: given.max_length ?? null,
    minTokens: given.min_new_tokens ?? null,
    minLength: given.min_length ?? 0,
    stop: [given.stop_strings ?? []].flat(),
    ignored: Object.keys(given).filter((name) => Object.hasOwn(IGNORED, name) && !IGNORED[name](given[name])),
  };
}

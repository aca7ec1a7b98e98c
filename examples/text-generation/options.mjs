// The command line of the chat.
import { parseArgs } from 'node:util';

export const HELP = `Usage: node index.mjs [FOLDER] [options]

A chat with a language model: answers appear as they are generated. FOLDER is a model for Transformers.js, with
config.json, tokenizer.json, tokenizer_config.json and onnx/model.onnx. A model without a chat template goes on with each
line instead. So does the tiny model that answers without a FOLDER: it knows a few hundred sentences about everyday things
by heart, and mixes them.

  --prompt TEXT    answers this and ends
  --dtype D        the weights: fp32 is onnx/model.onnx, q4 is onnx/model_q4.onnx, ... (default: fp32)
  --system TEXT    tells the model how to answer
  --max-tokens N   the longest answer (default: 512)
  --temperature T  0 always takes the most likely token, higher is bolder
  --top-k K        only the K most likely tokens count, 0 for all
  --top-p P        only the most likely tokens count that have this probability together
                   (default of these three: what generation_config.json says)
  --seed N         a whole number; the same one gives the same answers (default: a random one)
  --threads N      compute on the CPU with so many threads (default: on all cores)
  --help           print this text

Ctrl+C stops an answer, /new forgets the conversation, and /exit or the end of the input ends the program.
`;

/** Something the user can put right; printed without a stack, exit code 2. */
export class UsageError extends Error {
  name = 'UsageError';
}

/**
 * The number that an option holds.
 * @param {string} option
 * @param {string} text
 * @param {(value: number) => boolean} isValid
 * @param {string} expected says in the message which numbers are valid
 * @throws {UsageError}
 */
function numberOf(option, text, isValid, expected) {
  const value = text.trim() === '' ? NaN : Number(text);
  if (!isValid(value)) throw new UsageError(`--${option} is "${text}", expected ${expected}`);
  return value;
}

/**
 * As `numberOf`, for an option without a default.
 * @param {string} option
 * @param {string | undefined} text
 * @param {(value: number) => boolean} isValid
 * @param {string} expected
 */
const optionalNumber = (option, text, isValid, expected) => (text === undefined ? undefined : numberOf(option, text, isValid, expected));

/** Options of the models in folders. The tiny model has one file, and no template that has a place for a system message. */
const FOLDER_OPTIONS = /** @type {const} */ (['dtype', 'system']);

/**
 * The checked arguments, or null if the user asked for help.
 * @param {string[]} args
 */
export function parseArguments(args) {
  const { values, positionals } = parseArgs({
    args,
    options: {
      prompt: { type: 'string' },
      dtype: { type: 'string' },
      system: { type: 'string' },
      'max-tokens': { type: 'string', default: '512' },
      temperature: { type: 'string' },
      'top-k': { type: 'string' },
      'top-p': { type: 'string' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 32)) },
      threads: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
    allowPositionals: true,
  });
  if (values.help) return null;
  if (positionals.length > 1) throw new UsageError(`one folder is expected, not ${positionals.length}: ${positionals.join(', ')}`);
  const [folder] = positionals;
  const idle = FOLDER_OPTIONS.find((option) => values[option] !== undefined);
  if (folder === undefined && idle !== undefined) throw new UsageError(`--${idle} has no effect without a folder`);
  const isWhole = (/** @type {number} */ lowest, /** @type {number} */ end) => (/** @type {number} */ n) => Number.isInteger(n) && n >= lowest && n < end;
  return {
    folder,
    prompt: values.prompt,
    dtype: values.dtype ?? 'fp32',
    system: values.system,
    maxTokens: numberOf('max-tokens', values['max-tokens'], isWhole(1, Infinity), 'a positive whole number'),
    sampling: {
      temperature: optionalNumber('temperature', values.temperature, (t) => t >= 0 && t <= 10, 'a number from 0 to 10'),
      topK: optionalNumber('top-k', values['top-k'], isWhole(0, Infinity), 'a whole number from 0'),
      topP: optionalNumber('top-p', values['top-p'], (p) => p > 0 && p <= 1, 'a number above 0, and 1 at most'),
    },
    seed: numberOf('seed', values.seed, isWhole(0, 2 ** 32), 'a whole number from 0 to 4294967295'),
    threads: optionalNumber('threads', values.threads, isWhole(1, 1025), 'a whole number from 1 to 1024'),
  };
}

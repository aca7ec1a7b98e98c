// The command line of the text generation benchmark.

import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { checksOf, MAX_THREADS } from '../arguments.mjs';
import { TYPES } from './catalog.mjs';
import { ENGINE_NAMES } from './engines.mjs';

const TYPE_NAMES = /** @type {import('./catalog.mjs').TypeName[]} */ (Object.keys(TYPES));

/** Maximum length of a text: the models have no more positions. */
const MAX_TOKENS = 2048;

export const USAGE = `usage: npm run bench -- generate [OPTION ...]

Generates text with language models of random weights, which are written on demand (2.5 GB under target/), and compares
with other engines, which are installed on demand.

  --types LIST     of ${TYPE_NAMES.join(', ')} (all)
  --engines LIST   of ${ENGINE_NAMES.join(', ')} (all)
  --threads LIST   numbers of threads (1,2; 1 on a single processor)
  --prompt LIST    tokens of the prompts (128,1024); whisper has its own
  --tokens N       tokens to generate after the first one (64)
  --rounds N       texts of each engine, type and number of threads (3); half as many of the longer prompts
  --seconds N      start no further token of a text after this many seconds (2)
  --no-limits      do not measure the read bandwidth of memory
  --tiny           small models, to check that everything runs
  --json FILE      write all measurements
  --write          write bench/generate/RESULTS.md
  --help`;

const OPTIONS = /** @satisfies {import('node:util').ParseArgsOptionsConfig} */ ({
  types: { type: 'string', default: TYPE_NAMES.join(',') },
  engines: { type: 'string', default: ENGINE_NAMES.join(',') },
  threads: { type: 'string', default: availableParallelism() > 1 ? '1,2' : '1' },
  prompt: { type: 'string', default: '128,1024' },
  tokens: { type: 'string', default: '64' },
  rounds: { type: 'string', default: '3' },
  seconds: { type: 'string', default: '2' },
  'no-limits': { type: 'boolean', default: false },
  tiny: { type: 'boolean', default: false },
  json: { type: 'string' },
  write: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
});

const { wrong, parsed, integer, integers, someOf } = checksOf(USAGE);

/**
 * @typedef {object} Options
 * @property {import('./catalog.mjs').TypeName[]} types
 * @property {string[]} engines
 * @property {number[]} threads
 * @property {number[]} prompts lengths, the shortest first
 * @property {number} tokens
 * @property {number} rounds of the shortest prompt
 * @property {number} seconds
 * @property {boolean} limits
 * @property {boolean} tiny
 * @property {string} [json]
 * @property {boolean} write
 */

/**
 * Reads the command line.
 *
 * @param {string[]} args
 * @returns {Options}
 * @throws {Failure} with exit status 2 when it is invalid, 0 when help was requested
 */
export function readOptions(args) {
  const values = parsed(() => parseArgs({ args, options: OPTIONS }).values);
  const prompts = integers('prompt', values.prompt, MAX_TOKENS).sort((a, b) => a - b);
  const tokens = integer('tokens', values.tokens, MAX_TOKENS);
  if (Math.max(...prompts) + tokens >= MAX_TOKENS) {
    throw wrong(`--prompt and --tokens may add up to at most ${MAX_TOKENS - 1}`);
  }
  if (values.tiny && values.write) {
    throw wrong('--write cannot be combined with --tiny');
  }
  return {
    types: someOf('types', values.types, TYPE_NAMES),
    engines: someOf('engines', values.engines, ENGINE_NAMES),
    threads: integers('threads', values.threads, MAX_THREADS),
    prompts,
    tokens,
    rounds: integer('rounds', values.rounds, 1000),
    seconds: integer('seconds', values.seconds, 3600),
    limits: !values['no-limits'],
    tiny: values.tiny,
    json: values.json,
    write: values.write,
  };
}

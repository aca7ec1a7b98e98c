// Measures engines on one model, in turns: changes of the machine's state then affect all of them.

import { sum } from 'd3-array';
import { EngineError, EngineProcess } from '../../packages/cli/lib/bench/process.mjs';
import { untilAtRest, watched } from '../machine.mjs';
import { intoPageCache } from '../measure.mjs';
import { filesOf, TYPES, vocabularyOf } from './catalog.mjs';
import { commandOf } from './engines.mjs';
import { promptOf } from './inputs.mjs';

/**
 * Length of a process's first text, which is not a sample: memory is mapped and code compiled while it is generated.
 */
const WARM_UP_TOKENS = 8;

/** Length of Whisper's prompts, which state language and task. */
const WHISPER_PROMPT = 4;

/**
 * @typedef {import('./types.d.mts').Generated & { foreign: number }} Sample `foreign`: number of processors that others
 *   kept busy meanwhile
 */

/**
 * @typedef {object} Result of an engine
 * @property {string} engine
 * @property {'ok' | 'failed' | 'unsupported'} status
 * @property {string} [reason] why it is not `ok`
 * @property {string} [version]
 * @property {number} [loadMs] from the file to a model that is ready to run
 * @property {number} [firstTextMs] from the file to the first token of the first text
 * @property {{ prompt: number, samples: Sample[] }[]} texts the shortest prompt first
 */

/**
 * @typedef {object} Measurement
 * @property {import('./catalog.mjs').TypeName} type
 * @property {number} threads
 * @property {number[]} prompts lengths, the shortest first
 * @property {Result[]} results
 */

/**
 * Returns the prompt lengths of a type.
 *
 * @param {import('./catalog.mjs').TypeName} type
 * @param {number[]} prompts of language models
 */
export const promptsOf = (type, prompts) => (TYPES[type].model === 'whisper' ? [WHISPER_PROMPT] : prompts);

/**
 * Returns how many texts are generated: fewer for longer prompts, which take most of the time.
 *
 * @param {number} rounds of the shortest prompt
 * @param {number} prompts
 * @returns {number[]} for each prompt
 */
export const roundsOf = (rounds, prompts) => Array.from({ length: prompts }, (_, i) => (i === 0 ? rounds : Math.ceil(rounds / 2)));

/** One engine. If a step fails, the engine is out; the others go on. */
class Contestant {
  /** @type {Result} */
  result;
  /** @type {EngineProcess<import('./types.d.mts').GenerateCommands>} */
  process;
  isRunning = true;

  /** @param {string} engine */
  constructor(engine) {
    this.result = { engine, status: 'ok', texts: [] };
    this.process = new EngineProcess(engine, commandOf(engine));
  }

  /**
   * @param {'failed' | 'unsupported'} status if the engine cannot do the step
   * @param {() => Promise<void>} step
   */
  async attempt(status, step) {
    if (!this.isRunning) return;
    try {
      await step();
    } catch (error) {
      await this.end();
      // Any other error is the benchmark's own fault.
      if (!(error instanceof EngineError)) throw error;
      Object.assign(this.result, { status, reason: error.message });
    }
  }

  /**
   * @param {import('./types.d.mts').GenerateLoad} parameters
   * @param {import('./types.d.mts').GenerateRequest} request the first text
   */
  async start(parameters, request) {
    const { version, loadMs } = await this.process.request('load', parameters);
    const { firstMs } = await this.process.request('generate', { ...request, tokens: WARM_UP_TOKENS });
    Object.assign(this.result, { version, loadMs, firstTextMs: loadMs + firstMs });
  }

  /** @param {import('./types.d.mts').GenerateRequest} request */
  async sample(request) {
    const { result, foreign } = await watched(this.process.pid, () => this.process.request('generate', request));
    const { texts } = this.result;
    const prompt = request.prompt.length;
    if (texts.at(-1)?.prompt !== prompt) texts.push({ prompt, samples: [] });
    texts[texts.length - 1].samples.push({ ...result, foreign });
  }

  async end() {
    this.isRunning = false;
    await this.process.end();
  }
}

/**
 * Measures engines on a model.
 *
 * @param {{ models: string, type: import('./catalog.mjs').TypeName, threads: number }} model
 * @param {Pick<import('./options.mjs').Options, 'engines' | 'prompts' | 'tokens' | 'rounds' | 'seconds'>} options
 * @param {(done: number) => void} advance called with the share that is done
 * @returns {Promise<Measurement>}
 */
export async function measure({ models, type, threads }, { engines, prompts, tokens, rounds, seconds }, advance) {
  const vocabulary = vocabularyOf(models, type);
  const lengths = promptsOf(type, prompts);
  const requests = lengths.map((length) => ({ prompt: promptOf(length, vocabulary), tokens, seconds }));
  const parameters = { models, type, threads, positions: Math.max(...lengths) + tokens + 1 };
  const counts = roundsOf(rounds, requests.length);
  const steps = engines.length * (1 + sum(counts));
  let done = 0;
  // The first engine must not wait for the disk.
  for (const file of filesOf(models, type)) await intoPageCache(file);
  const contestants = engines.map((engine) => new Contestant(engine));
  const atRest = () => untilAtRest(contestants.filter(({ isRunning }) => isRunning).map((one) => one.process.pid));
  try {
    for (const one of contestants) {
      await one.attempt('unsupported', () => one.start(parameters, requests[0]));
      advance(++done / steps);
    }
    for (const [i, request] of requests.entries()) {
      for (let round = 0; round < counts[i]; round++) {
        // Alternates the order: no engine is always first.
        for (const one of round % 2 === 0 ? contestants : [...contestants].reverse()) {
          await atRest();
          await one.attempt('failed', () => one.sample(request));
          advance(++done / steps);
        }
      }
    }
  } finally {
    await Promise.all(contestants.map((one) => one.end()));
  }
  return { type, threads, prompts: lengths, results: contestants.map(({ result }) => result) };
}

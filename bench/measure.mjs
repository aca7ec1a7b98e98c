// Measures engines on one model, in turns: changes of the machine's state then affect all of them.

import { createReadStream, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { median } from 'd3-array';
import { EngineError, EngineProcess } from '../packages/cli/lib/bench/process.mjs';
import { readNpy } from '../packages/cli/lib/npy.mjs';
import { isDirty } from '../packages/cli/lib/statistics.mjs';
import { compareOutput, readReference, worst } from './check.mjs';
import { residentMemory, untilAtRest, watched } from './machine.mjs';
import { ENGINES } from './peers.mjs';

/** Approximate length of a sample: long enough to detect other load with ticks of 10 ms. */
const SAMPLE_MS = 150;

/** Approximate total time of warm-up runs. */
const WARM_UP_MS = 300;

/** Longer runs need no warm-up: they fill the caches themselves. */
const LONG_RUN_MS = 400;

/** Dirty samples are repeated until there are this many times the requested samples. */
const MAX_REPEATS = 2;

/**
 * @typedef {object} Result of an engine on a model
 * @property {string} engine
 * @property {import('./types.mjs').Status} status
 * @property {string} [reason] why it is not `ok`
 * @property {string} [version]
 * @property {number[]} [loadMs] from the file to a model that is ready to run, each in its own process, in milliseconds
 * @property {{ empty: number, loaded: number, afterRuns?: number, anonymous?: number }} [memory] resident bytes before
 *   the library is loaded, when the model is loaded, and after all runs; and the part of the last not backed by files
 * @property {Comparison} [check] absent without a reference
 * @property {import('../packages/cli/lib/statistics.mjs').Sample[]} [samples]
 * @property {Extra} [extra]
 */

/** @typedef {import('./types.mjs').Deviation & { output: string }} Comparison the output with the largest error */

/**
 * @typedef {object} Extra measurements of an engine
 * @property {number} [burst] milliseconds of one dispatch of many
 * @property {import('./types.mjs').Work} [work]
 */

/**
 * Reads a file: the first engine to load it must not wait for the disk.
 *
 * @param {string} file
 */
export async function intoPageCache(file) {
  for await (const _ of createReadStream(file, { highWaterMark: 1 << 20 }));
}

/**
 * Returns the parameters of an engine's `load`.
 *
 * @param {string} name
 * @param {import('./models.mjs').BenchModel} model
 * @param {number} threads
 * @returns {Promise<import('../packages/cli/lib/bench/types.mjs').LoadRequest>}
 */
async function loadParameters(name, model, threads) {
  const { prepare, options } = ENGINES[name];
  const file = prepare === undefined ? model.file : await prepare(model);
  return { model: file, inputs: model.inputs, outputs: Object.keys(model.outputs), threads, ...options };
}

/**
 * Compares the outputs of one run with known ones.
 *
 * @param {EngineProcess} process
 * @param {import('./models.mjs').BenchModel} model
 * @returns {Promise<Comparison | undefined>} the worst; `undefined` if nothing is known
 */
export async function checkOutputs(process, model) {
  const directory = mkdtempSync(join(tmpdir(), 'webnn-bench-'));
  try {
    const names = Object.keys(model.outputs);
    const files = names.map((_, i) => join(directory, `${i}.npy`));
    await process.request('save', { files });
    const comparisons = [];
    for (const [i, name] of names.entries()) {
      const reference = model.outputs[name];
      if (reference === null) continue;
      const { expected, unquantized } = await readReference(reference);
      comparisons.push({ output: name, ...compareOutput(await readNpy(files[i]), expected, model.kind, unquantized) });
    }
    return comparisons.length === 0 ? undefined : worst(comparisons);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** One engine on one model. If a step fails, the engine is out; the others go on. */
class Contestant {
  /** @type {Result} */
  result;
  /** @type {EngineProcess | undefined} */
  process;
  /** @type {import('../packages/cli/lib/bench/types.mjs').LoadRequest | undefined} */
  parameters;
  /** @type {import('../packages/cli/lib/statistics.mjs').Sample[]} */
  samples = [];
  /** @type {string[]} */
  #command = [];
  #iterations = 1;
  #warmup = 0;

  /** @param {string} name */
  constructor(name) {
    this.result = { engine: name, status: 'ok' };
  }

  get isRunning() {
    return this.process !== undefined;
  }

  /** The process of an engine that is running. */
  get running() {
    return /** @type {EngineProcess} */ (this.process);
  }

  /**
   * Does one step. If it fails, the engine is out, with `status` and the reason.
   *
   * @template T
   * @param {'failed' | 'unsupported'} status
   * @param {() => Promise<T>} step
   */
  async attempt(status, step) {
    try {
      return await step();
    } catch (error) {
      this.result.status = status;
      this.result.reason = /** @type {Error} */ (error).message;
      await this.end();
      // Any other error is the benchmark's own fault.
      if (status === 'failed' && !(error instanceof EngineError)) throw error;
      return undefined;
    }
  }

  /**
   * @param {import('./models.mjs').BenchModel} model
   * @param {number} threads
   */
  async prepare(model, threads) {
    const name = this.result.engine;
    this.#command = await ENGINES[name].command();
    this.parameters = await this.attempt('unsupported', () => loadParameters(name, model, threads));
  }

  /** Starts a process and loads the model in it. */
  async load() {
    await this.end();
    this.process = new EngineProcess(this.result.engine, this.#command);
    // Its first answer shows that it has started; "unsupported" is also an answer.
    const empty = await this.attempt('unsupported', () => started(this.running));
    const loaded = await this.attempt('unsupported', async () => this.process?.request('load', this.parameters));
    if (empty === undefined || loaded === undefined) return;
    this.result.version = loaded.version;
    (this.result.loadMs ??= []).push(loaded.loadMs);
    this.result.memory = { empty, loaded: residentMemory(this.running.pid).resident };
  }

  /** @param {import('./models.mjs').BenchModel} model */
  async check(model) {
    const comparison = await this.attempt('failed', () => checkOutputs(this.running, model));
    this.result.check = comparison;
    if (comparison !== undefined && !(comparison.error <= comparison.allowed)) {
      const { output, error, allowed, unit } = comparison;
      this.result.status = 'wrong';
      this.result.reason = `${output} is off by ${error.toPrecision(3)} ${unit}, allowed are ${allowed}`;
    }
  }

  /** Runs for a while, and determines the runs per sample. */
  async warmUp() {
    let [iterations, spent, last] = [1, 0, 0];
    while (spent < WARM_UP_MS) {
      const answer = await this.attempt('failed', () => this.running.request('run', { warmup: 0, iterations }));
      if (answer === undefined) return;
      spent += answer.ms;
      last = answer.ms / iterations;
      iterations = Math.max(1, Math.min(10 * iterations, Math.ceil(SAMPLE_MS / last)));
    }
    this.#iterations = Math.max(1, Math.ceil(SAMPLE_MS / last));
    // Other engines have run in between, and evicted this one from the caches.
    this.#warmup = last > LONG_RUN_MS ? 0 : 1;
    this.result.samples = this.samples;
  }

  async sample() {
    const [iterations, warmup] = [this.#iterations, this.#warmup];
    const work = () => this.running.request('run', { warmup, iterations });
    const answer = await this.attempt('failed', () => watched(this.running.pid, work));
    if (answer !== undefined) {
      this.samples.push({ ms: answer.result.ms / iterations, iterations, foreign: answer.foreign });
    }
  }

  recordMemory() {
    const { resident, anonymous } = residentMemory(this.running.pid);
    Object.assign(/** @type {object} */ (this.result.memory), { afterRuns: resident, anonymous });
  }

  async end() {
    await this.process?.end();
    this.process = undefined;
  }
}

/**
 * Returns the resident bytes of a started engine that has not loaded its library yet.
 *
 * @param {EngineProcess} process
 */
async function started(process) {
  await process.request('ready');
  return residentMemory(process.pid).resident;
}

/** @param {Contestant[]} contestants */
const untilAllRest = (contestants) => untilAtRest(contestants.filter(({ isRunning }) => isRunning).map(({ running }) => running.pid));

/**
 * Takes samples in turns until each engine has enough clean ones, or reaches the maximum.
 *
 * @param {Contestant[]} contestants
 * @param {number} count
 * @param {(done: number) => void} advance
 */
async function takeSamples(contestants, count, advance) {
  const limit = MAX_REPEATS * count;
  const clean = (/** @type {Contestant} */ { samples }) => samples.filter((sample) => !isDirty(sample)).length;
  const isWanting = (/** @type {Contestant} */ one) => one.isRunning && clean(one) < count && one.samples.length < limit;
  while (contestants.some(isWanting)) {
    for (const one of contestants.filter(isWanting)) {
      await untilAllRest(contestants);
      await one.sample();
    }
    const running = contestants.filter(({ isRunning }) => isRunning);
    advance(Math.min(1, ...running.map((one) => Math.max(clean(one) / count, one.samples.length / limit))));
  }
}

/**
 * Measures engines on a model.
 *
 * @param {import('./models.mjs').BenchModel} model
 * @param {{ engines: string[], threads: number, samples: number, loads: number }} plan
 * @param {{ advance?: (done: number) => void, extra?: Record<string, (process: EngineProcess) => Promise<Extra>> }}
 *   [hooks] `advance` is called with the part (0 to 1) that is done; `extra` makes further measurements of an engine,
 *   which become `extra` of its result
 * @returns {Promise<Result[]>} in the order of the engines
 */
export async function measure(model, { engines, threads, samples, loads }, { advance = () => {}, extra = {} } = {}) {
  await intoPageCache(model.file);
  const contestants = engines.map((name) => new Contestant(name));
  try {
    for (const one of contestants) {
      await one.prepare(model, threads);
    }
    const able = contestants.filter(({ parameters }) => parameters !== undefined);
    for (let i = 0; i < loads; i++) {
      for (const one of able.filter(({ result }) => result.status === 'ok')) {
        await untilAllRest(able);
        await one.load();
      }
    }
    const running = () => able.filter(({ isRunning }) => isRunning);
    for (const one of running()) await one.check(model);
    for (const one of running()) await one.warmUp();
    await takeSamples(running(), samples, advance);
    for (const one of running()) {
      one.recordMemory();
      const ask = extra[one.result.engine];
      if (ask !== undefined) {
        one.result.extra = await one.attempt('failed', () => ask(one.running));
      }
    }
  } finally {
    await Promise.all(contestants.map((one) => one.end()));
  }
  return contestants.map(({ result }) => result);
}

/**
 * Returns the median load time of a result, in milliseconds.
 *
 * @param {{ loadMs: number[] }} result
 */
export const loadTime = ({ loadMs }) => /** @type {number} */ (median(loadMs));

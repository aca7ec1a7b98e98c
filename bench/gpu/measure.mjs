// Measures engines on a GPU: the time of single runs, and of many runs in flight at once, in turns with this package's
// single-operator graphs.

import { EngineError, EngineProcess } from '../../packages/cli/lib/bench/process.mjs';
import { checkOutputs } from '../measure.mjs';
import { GPU_ENGINES } from '../peers.mjs';
import { workOfSteps } from '../work.mjs';

/** Approximate length of a sample, in milliseconds. */
const SAMPLE_MS = 200;

/** Minimum and maximum runs of a sample. */
const RUNS = { times: [3, 1000], burst: [4, 10_000] };

/** Number of runs after which engines have finished compiling and tuning. */
const WARM_UP = 3;

/**
 * Returns how many runs of `ms` milliseconds make a sample.
 *
 * @param {keyof typeof RUNS} kind
 * @param {number} ms
 */
const runsOf = (kind, ms) => Math.min(RUNS[kind][1], Math.max(RUNS[kind][0], Math.ceil(SAMPLE_MS / ms)));

/**
 * @typedef {object} GpuResult of an engine on a model
 * @property {string} engine
 * @property {import('../types.mjs').Status} status
 * @property {string} [reason] why it is not `ok`
 * @property {string} [version]
 * @property {number} [loadMs] from the file to a model that is ready to run, in milliseconds
 * @property {number[]} latencies of single runs from inputs on the CPU to outputs there, in milliseconds
 * @property {number[]} bursts milliseconds per run of many on inputs on the GPU, one number per sample
 * @property {import('../types.mjs').Work & { devices: string[], adapter: string | null }} [graph] of this package
 */

/** One engine on one model. If a step fails, the engine is out. */
class GpuContestant {
  #runs = { times: 0, burst: 0 };
  /** @type {EngineProcess | undefined} */
  #process;

  /** @param {string} name */
  constructor(name) {
    /** @type {GpuResult} */
    this.result = { engine: name, status: 'ok', latencies: [], bursts: [] };
  }

  /** The started process. */
  get #running() {
    return /** @type {EngineProcess} */ (this.#process);
  }

  /**
   * @template T
   * @param {'failed' | 'unsupported'} status
   * @param {() => Promise<T>} step
   */
  async #attempt(status, step) {
    if (this.result.status !== 'ok') return undefined;
    try {
      return await step();
    } catch (error) {
      // Any other error is the benchmark's own fault.
      if (!(error instanceof EngineError)) throw error;
      Object.assign(this.result, { status, reason: error.message });
      await this.end();
      return undefined;
    }
  }

  /**
   * @param {import('../models.mjs').BenchModel} model
   * @param {string[]} command
   */
  async start(model, command) {
    const { engine } = this.result;
    this.#process = new EngineProcess(engine, command);
    const { file, inputs, outputs } = model;
    const parameters = { model: file, inputs, outputs: Object.keys(outputs), threads: 1, ...GPU_ENGINES[engine].options };
    Object.assign(this.result, await this.#attempt('unsupported', () => this.#running.request('load', parameters)));
  }

  /**
   * Compares its outputs, and determines the runs per sample.
   *
   * @param {import('../models.mjs').BenchModel} model
   */
  async warmUp(model) {
    await this.#attempt('failed', async () => {
      const { kind = model.kind } = GPU_ENGINES[this.result.engine];
      const comparison = await checkOutputs(this.#running, { ...model, kind });
      if (comparison !== undefined && !(comparison.error <= comparison.allowed)) {
        const { output, error, allowed, unit } = comparison;
        throw new EngineError(`${output} is off by ${error.toPrecision(3)} ${unit}, allowed are ${allowed}`);
      }
      const { ms } = await this.#running.request('times', { iterations: WARM_UP });
      this.#runs.times = runsOf('times', /** @type {number} */ (ms.at(-1)));
      await this.#running.request('burst', { count: WARM_UP });
      const burst = await this.#running.request('burst', { count: WARM_UP });
      this.#runs.burst = runsOf('burst', burst.ms / WARM_UP);
    });
  }

  async sample() {
    await this.#attempt('failed', async () => {
      const { ms } = await this.#running.request('times', { iterations: this.#runs.times });
      this.result.latencies.push(...ms);
      const burst = await this.#running.request('burst', { count: this.#runs.burst });
      this.result.bursts.push(burst.ms / this.#runs.burst);
    });
  }

  /** Describes this package's graph. */
  async describe() {
    await this.#attempt('failed', async () => {
      const { devices, adapter, steps } = await this.#running.request('describe');
      this.result.graph = { devices, adapter, ...workOfSteps(steps) };
    });
  }

  async end() {
    await this.#process?.end();
  }
}

/**
 * Measures engines on a model, in turns.
 *
 * @param {import('../models.mjs').BenchModel} model
 * @param {{ engines: string[], commands: Record<string, string[]>, samples: number, ours: string }} plan
 * @param {Rates} rates take turns, too
 * @returns {Promise<GpuResult[]>}
 */
export async function measureOnGpu(model, { engines, commands, samples, ours }, rates) {
  const contestants = engines.map((name) => new GpuContestant(name));
  try {
    for (const one of contestants) await one.start(model, commands[one.result.engine]);
    for (const one of contestants) await one.warmUp(model);
    for (let i = 0; i < samples; i++) {
      for (const one of contestants) await one.sample();
      await rates.sample();
    }
    await contestants.find(({ result }) => result.engine === ours)?.describe();
  } finally {
    await Promise.all(contestants.map((one) => one.end()));
  }
  return contestants.map(({ result }) => result);
}

/** Rates of this package's single-operator graphs, measured repeatedly. */
export class Rates {
  #process;
  /** @type {(import('../../packages/cli/lib/bench/types.mjs').RateGraph & { count: number, fastest: number })[]} */
  #graphs = [];

  /**
   * @param {string[]} command of the engine
   * @param {import('../engines/gpu-rates.mjs').Wanted} graphs
   */
  constructor(command, graphs) {
    this.#process = new EngineProcess('gpu-rates', command);
    this.wanted = graphs;
  }

  async start() {
    await this.#process.request('load', { model: JSON.stringify(this.wanted), inputs: {}, outputs: [] });
    for (const graph of await this.#process.request('names')) {
      const { name } = graph;
      await this.#process.request('burst', { name, count: 1 });
      const { ms } = await this.#process.request('burst', { name, count: 1 });
      this.#graphs.push({ ...graph, count: runsOf('burst', ms), fastest: Infinity });
    }
  }

  /** One turn. */
  async sample() {
    for (const graph of this.#graphs) {
      const { name, count } = graph;
      const { ms } = await this.#process.request('burst', { name, count });
      graph.fastest = Math.min(ms / count, graph.fastest);
    }
  }

  /** @returns {{ name: string, ms: number, perSecond: number, unit: 'B/s' | 'FLOP/s' }[]} by the fastest sample of each */
  results() {
    return this.#graphs.map(({ name, amount, unit, fastest }) => ({ name, ms: fastest, perSecond: (amount / fastest) * 1000, unit }));
  }

  async end() {
    await this.#process.end();
  }
}

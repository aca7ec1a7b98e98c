// Measures two engines on one case, in turns.

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { median, sum } from 'd3-array';
import { numbersOf } from 'webnn-node-text/elements';
import { EngineError, EngineProcess } from '../../packages/cli/lib/bench/process.mjs';
import { formatNpy, readNpy } from '../../packages/cli/lib/npy.mjs';
import { largestDifference } from '../../packages/cli/lib/statistics.mjs';
import { TOLERANCES, worst } from '../check.mjs';
import { modelOf } from './case.mjs';

/** Length of a turn with one number of threads, and the least number of runs in it. */
const TURN = { ms: 30, runs: 3 };

/**
 * A turn before the others, which is not counted: JavaScript is compiled, memory is mapped and threads are started in it. Results
 * take new memory until the garbage collector gives back that of earlier ones, which it does after some 64 MB.
 */
const WARM_UP = { ms: 50, runs: 2, bytes: 100e6 };

/** Pause before another engine's turn: threads of some engines spin for a while after a run. */
const PAUSE_MS = 80;

/** Time in which the operators alone are measured, and bounds for the number of runs. */
const ALONE = { ms: 25, fewest: 5, most: 200 };

/** @typedef {EngineProcess<import('./types.mjs').OperatorCommands>} Process */

/**
 * An engine that is started again after it has refused or failed: it may have ended, or have lost memory.
 */
export class Engine {
  #command;
  #options;
  /** @type {Process | undefined} */
  #process;
  /** @type {string | undefined} */
  version;

  /**
   * @param {string} name
   * @param {string[]} command
   * @param {object} [options] for `load`
   */
  constructor(name, command, options = {}) {
    this.name = name;
    this.#command = command;
    this.#options = options;
  }

  /**
   * @template {keyof import('./types.mjs').OperatorCommands} K
   * @param {K} command
   * @param {Parameters<import('./types.mjs').OperatorCommands[K]>[0]} parameters
   */
  async request(command, parameters) {
    this.#process ??= new EngineProcess(this.name, this.#command);
    try {
      return await this.#process.request(command, parameters);
    } catch (error) {
      await this.end();
      throw error;
    }
  }

  /** @param {Parameters<import('./types.mjs').OperatorCommands['load']>[0]} request */
  async load(request) {
    const { version } = await this.request('load', { ...request, ...this.#options });
    this.version = version;
  }

  async end() {
    await this.#process?.end();
    this.#process = undefined;
  }
}

/**
 * @typedef {object} Plan
 * @property {number[]} threads
 * @property {number} samples turns of each engine with each number of threads
 * @property {boolean} isTiny whether there is one run of everything, to see that it works
 * @property {string} folder for models, feeds and results
 */

/** Largest differences of floats, relative to the root mean square of the reference. @type {Record<string, number>} */
const ALLOWED = { ...TOLERANCES, float64: TOLERANCES.float32 };

/** @param {ArrayLike<number>} numbers */
function rootMeanSquare(numbers) {
  let total = 0;
  for (let i = 0; i < numbers.length; i++) total += numbers[i] ** 2;
  return Math.sqrt(total / numbers.length);
}

/**
 * Compares one result with that of the other engine.
 *
 * @param {import('../../packages/cli/lib/types.mjs').Tensor} got
 * @param {import('../../packages/cli/lib/types.mjs').Tensor} expected
 * @param {import('./case.mjs').Details} details
 * @returns {import('../types.mjs').Deviation}
 */
export function deviationOf(got, expected, { steps = 0, tolerance, isRandom = false, isUnordered = false }) {
  if (String(got.shape) !== String(expected.shape)) return { error: Infinity, allowed: 0, unit: `(its shape is [${got.shape}], not [${expected.shape}])` };
  if (isRandom) return { error: 0, allowed: 0, unit: '(random)' };
  const [a, b] = [got, expected].map((tensor) => (isUnordered ? numbersOf(tensor).slice().sort() : numbersOf(tensor)));
  const difference = largestDifference(a, b);
  const allowed = ALLOWED[expected.dataType];
  if (allowed === undefined) return { error: difference, allowed: steps, unit: '' };
  return { error: difference / (rootMeanSquare(b) || 1), allowed: tolerance ?? allowed, unit: 'of the root mean square' };
}

/** Measures cases one after another, each in both engines. */
export class Measurement {
  #engines;
  #plan;

  /**
   * @param {Engine[]} engines this package first; the results of the last one are the reference
   * @param {Plan} plan
   */
  constructor(engines, plan) {
    this.#engines = engines;
    this.#plan = plan;
    mkdirSync(plan.folder, { recursive: true });
  }

  /**
   * @param {import('./case.mjs').Case} one
   * @returns {Promise<import('./types.mjs').Outcome>}
   */
  async measure(one) {
    const { family, name } = one;
    /** @type {import('./types.mjs').Outcome} */
    const outcome = { family, name, status: 'ok', times: {} };
    // What an engine cannot do ends a case, not the sweep.
    const attempt = async (/** @type {'refused' | 'failed'} */ status, /** @type {Engine} */ engine, /** @type {() => Promise<void>} */ step) => {
      if (outcome.status !== 'ok') return;
      try {
        await step();
      } catch (error) {
        if (!(error instanceof EngineError)) throw error;
        Object.assign(outcome, { status, engine: engine.name, reason: error.message });
      }
    };
    const model = this.#write(one);
    for (const engine of this.#engines) await attempt('refused', engine, () => engine.load(model.request));
    /** @type {Record<string, string[]>} */
    const saved = {};
    for (const engine of this.#engines) {
      for (const threads of this.#plan.threads) {
        await attempt('failed', engine, async () => {
          const files = model.request.outputs.map((output) => join(this.#plan.folder, `${engine.name}-${threads}-${output}.npy`));
          await engine.request('save', { threads, files });
          saved[`${engine.name} ${threads}`] = files;
        });
      }
    }
    if (outcome.status === 'ok') Object.assign(outcome, await this.#compared(one, saved));
    if (outcome.status === 'ok') await this.#takeTurns(outcome, attempt);
    for (const engine of this.#engines) await engine.request('close', {});
    return outcome;
  }

  async end() {
    await Promise.all(this.#engines.map((engine) => engine.end()));
    rmSync(this.#plan.folder, { recursive: true });
  }

  /** @param {import('./case.mjs').Case} one */
  #write(one) {
    const { bytes, feeds, outputs } = modelOf(one);
    const { folder, threads } = this.#plan;
    const model = join(folder, 'model.onnx');
    writeFileSync(model, bytes);
    /** @type {Record<string, string>} */
    const inputs = {};
    for (const [name, tensor] of Object.entries(feeds)) {
      inputs[name] = join(folder, `${name}.npy`);
      writeFileSync(inputs[name], formatNpy(tensor));
    }
    return { request: { model, inputs, outputs, threads } };
  }

  /**
   * Compares the results of all engines with those of the last one.
   *
   * @param {import('./case.mjs').Case} one
   * @param {Record<string, string[]>} saved files by engine and number of threads
   */
  async #compared({ row: [, , , , details = {}] }, saved) {
    const engine = this.#engines[this.#engines.length - 1].name;
    const reference = `${engine} ${this.#plan.threads[0]}`;
    for (const [who, files] of Object.entries(saved).filter(([key]) => key !== reference)) {
      const deviations = [];
      for (const [i, file] of files.entries()) deviations.push(deviationOf(await readNpy(file), await readNpy(saved[reference][i]), details));
      const { error, allowed, unit } = worst(deviations);
      if (error <= allowed) continue;
      return {
        status: /** @type {const} */ ('wrong'),
        reason: `${who} against ${reference}: off by ${error.toPrecision(3)} ${unit}`.trimEnd() + `, allowed are ${allowed}`,
      };
    }
    return {};
  }

  /**
   * @param {import('./types.mjs').Outcome} outcome
   * @param {(status: 'failed', engine: Engine, step: () => Promise<void>) => Promise<void>} attempt
   */
  async #takeTurns(outcome, attempt) {
    const { threads: counts, samples, isTiny } = this.#plan;
    const turn = isTiny ? { ms: 0, runs: 1 } : TURN;
    /** @type {Record<string, { ms: number, runs: number }[]>} */
    const turns = {};
    /** @type {Record<string, number | null>} */
    const alone = {};
    const keyOf = (/** @type {Engine} */ { name }, /** @type {number} */ threads) => `${name} ${threads}`;
    for (let sample = 0; sample < samples; sample++) {
      for (const engine of this.#engines) {
        if (!isTiny) await sleep(PAUSE_MS);
        for (const threads of counts) {
          await attempt('failed', engine, async () => {
            if (sample === 0 && !isTiny) await engine.request('turn', { threads, ...WARM_UP });
            (turns[keyOf(engine, threads)] ??= []).push(await engine.request('turn', { threads, ...turn }));
          });
        }
        if (sample < samples - 1) continue;
        for (const threads of counts) {
          await attempt('failed', engine, async () => {
            const runs = isTiny ? 1 : runsAlone(middle(turns[keyOf(engine, threads)]));
            alone[keyOf(engine, threads)] = (await engine.request('operators', { threads, runs })).ms;
          });
        }
      }
    }
    if (outcome.status !== 'ok') return;
    for (const threads of counts) {
      outcome.times[threads] = Object.fromEntries(
        this.#engines.map((engine) => {
          const key = keyOf(engine, threads);
          return [engine.name, { ms: middle(turns[key]), runs: sum(turns[key], ({ runs }) => runs), alone: alone[key] }];
        }),
      );
    }
  }
}

/** @param {{ ms: number }[]} turns */
const middle = (turns) => /** @type {number} */ (median(turns, ({ ms }) => ms));

/** How many runs of some milliseconds measure the operators alone. @param {number} ms */
const runsAlone = (ms) => Math.min(ALONE.most, Math.max(ALONE.fewest, Math.round(ALONE.ms / ms)));

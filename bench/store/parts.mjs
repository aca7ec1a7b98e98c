// The parts of the benchmark. Each returns the lines of its bars.

import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { mean, median, sum } from 'd3-array';
import { formatDuration, formatPlural, formatShare } from '../../packages/cli/lib/format.mjs';
import { withProgress } from '../../packages/cli/lib/progress.mjs';
import { sampleInTurns } from '../turns.mjs';
import { bytesOf, fileOf, ggufFile, MODELS, TOKENS } from './models.mjs';
import { dropFromCache, EMPTY, memoryOfProcesses, runsInTurns, START, timeOf, WORKER } from './processes.mjs';

/** @typedef {import('./models.mjs').ModelName} ModelName */
/** @typedef {import('./types.d.mts').Row} Row */
/** @typedef {import('./types.d.mts').LoadSample} LoadSample */

/**
 * @typedef {object} Setting
 * @property {number} rounds
 * @property {number} seconds of the parts that watch a process
 * @property {number} processes that share a model
 * @property {string} folder for stores
 * @property {import('./types.d.mts').Abilities} abilities of this build
 * @property {boolean} hasPeer whether onnxruntime-node is measured, too
 * @property {boolean} hasLlama whether node-llama-cpp is, where it can do the same
 * @property {(part: string, model: ModelName) => boolean} isWanted
 */

const OURS = 'webnn-node';
const PEER = 'onnxruntime-node';
const LLAMA = 'node-llama-cpp';

/** Without a store, and with one. */
const [WITHOUT, STORE] = ['without', 'store'];

const NONE = '–';

/** Processes without a store: each has all weights, and few tell as much as many. */
const FEW = 2;

const megabytes = (/** @type {number} */ bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;

/** @template T @param {T[] | undefined} samples @param {(sample: T) => number} of @returns {number | undefined} */
const medianOf = (samples, of) => (samples === undefined || samples.length === 0 ? undefined : median(samples, of));

const shown = (/** @type {number | undefined} */ value, /** @type {(value: number) => string} */ format) => (value === undefined ? NONE : format(value));

/** @param {string} bar @param {ModelName} model @param {Partial<Row>} cells @returns {Row} */
const row = (bar, model, cells) => ({
  bar,
  model: MODELS[model].title,
  limit: NONE,
  measured: NONE,
  met: null,
  without: NONE,
  peer: NONE,
  llama: NONE,
  ...cells,
});

/**
 * A line for a value that is to be at most a limit, or at least.
 *
 * @param {string} bar
 * @param {ModelName} model
 * @param {{ value: number | undefined, limit: number, format: (value: number) => string, note?: string, without?: string, peer?: string, llama?: string, atLeast?: boolean }} result
 */
function barOf(bar, model, { value, limit, format, note = '', without = NONE, peer = NONE, llama = NONE, atLeast = false }) {
  const sign = atLeast ? '≥' : '≤';
  const met = value === undefined ? null : atLeast ? value >= limit : value <= limit;
  const measured = value === undefined ? NONE : `${format(value)}${note === '' ? '' : ` (${note})`}`;
  return row(bar, model, { limit: `${sign} ${format(limit)}`, measured, met, without, peer, llama });
}

const times = (/** @type {number} */ ratio) => `${ratio.toFixed(2)} ×`;

/** @param {number | undefined} a @param {number | undefined} b */
const ratioOf = (a, b) => (a === undefined || b === undefined ? undefined : a / b);

const modelsOf = (/** @type {Setting} */ setting, /** @type {string} */ part, /** @type {ModelName[]} */ names) =>
  names.filter((name) => setting.isWanted(part, name));

/**
 * What a line shows beside the store.
 *
 * @param {(variant: string) => number | undefined} of
 * @param {(value: number, variant: string) => string} format
 */
const cellsOf = (of, format) => {
  const [without, peer, llama] = [WITHOUT, PEER, LLAMA].map((variant) => shown(of(variant), (value) => format(value, variant)));
  return { without, peer, llama };
};

/** The variants that this build, the options and the model allow. @param {Setting} setting @param {ModelName} model */
const variantsOf = ({ abilities, hasPeer, hasLlama }, model) => [
  WITHOUT,
  ...(abilities.cache ? [STORE] : []),
  ...(hasPeer ? [PEER] : []),
  ...(hasLlama && model === 'q4' ? [LLAMA] : []),
];

/** What a worker loads. @param {Setting} setting @param {string} variant @param {ModelName} model */
const choiceOf = ({ folder }, variant, model) => ({
  engine: variant === PEER || variant === LLAMA ? variant : OURS,
  model,
  ...(variant === STORE && { cache: join(folder, model) }),
});

/**
 * Takes samples of variants in turns, with progress.
 *
 * @template Sample
 * @param {Setting} setting
 * @param {string} label
 * @param {string[]} variants
 * @param {(variant: string) => object} parametersOf
 * @returns {Promise<Record<string, Sample[]>>}
 */
function sample({ rounds }, label, variants, parametersOf) {
  const processOf = (/** @type {string} */ variant) => ({ worker: WORKER, parameters: parametersOf(variant) });
  return withProgress(label, (advance) => sampleInTurns(variants, processOf, rounds, advance), rounds * variants.length);
}

/** Fills the store of a model. @param {Setting} setting @param {ModelName} model */
async function fillStore(setting, model) {
  const { folder, abilities } = setting;
  const cache = join(folder, model);
  if (!abilities.cache) return;
  mkdirSync(cache, { recursive: true });
  if (readdirSync(cache).length > 0) return;
  await sample({ ...setting, rounds: 1 }, `store of ${model}`, [STORE], () => ({ task: 'fill', engine: OURS, model, cache }));
}

/** The files of a store. @param {Setting} setting @param {ModelName} model */
const storeFiles = ({ folder }, model) => {
  const entries = readdirSync(join(folder, model), { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
};

/** Memory of processes with the same model, in addition to that of empty ones. @param {Setting} setting @returns {Promise<Row[]>} */
async function memory(setting) {
  const { processes } = setting;
  const rows = [];
  const few = Math.min(FEW, processes);
  for (const model of modelsOf(setting, 'memory', ['embedder', 'gpt2', 'q4'])) {
    await fillStore(setting, model);
    const beyond = async (/** @type {string} */ variant) => {
      const count = variant === STORE ? processes : few;
      const weights = variant === LLAMA ? statSync(ggufFile()).size : bytesOf(model);
      const empty = await memoryOfProcesses(count, { engine: 'none' });
      const full = await memoryOfProcesses(count, choiceOf(setting, variant, model));
      const taken = (/** @type {'active' | 'resting'} */ state) => {
        const most = Math.max(...full[state].map((one) => one.private));
        return {
          share: (most - /** @type {number} */ (median(empty[state], (one) => one.private))) / weights,
          proportional: (sum(full[state], (one) => one.proportional) - sum(empty[state], (one) => one.proportional)) / weights,
        };
      };
      return { active: taken('active'), resting: taken('resting') };
    };
    /** @type {Record<string, Awaited<ReturnType<typeof beyond>>>} */
    const taken = {};
    await withProgress(`memory of ${model}`, async () => {
      for (const variant of variantsOf(setting, model)) taken[variant] = await beyond(variant);
    });
    const share = cellsOf((variant) => taken[variant]?.resting.share, formatShare);
    const total = cellsOf(
      (variant) => taken[variant]?.resting.proportional,
      (value) => `${times(value)} (${few})`,
    );
    const active = taken[STORE]?.active;
    rows.push(
      barOf(`private memory of each of ${processes} processes, of the weights`, model, {
        value: taken[STORE]?.resting.share,
        limit: 0.1,
        format: formatShare,
        note: `right after a run ${shown(active?.share, formatShare)}`,
        ...share,
      }),
      barOf('their PSS in total, by the weights', model, {
        value: taken[STORE]?.resting.proportional,
        limit: 1.3,
        format: times,
        note: `right after a run ${shown(active?.proportional, times)}`,
        ...total,
      }),
    );
  }
  return rows;
}

/** Limits of the time to load, by that without a store. */
const LOADS = /** @type {const} */ ({ resnet50: 0.25, embedder: 0.3, gpt2: 0.25, q4: 0.1 });

/** With free sizes, nothing is packed before the first run, which then counts without the time of a run. @param {ModelName} model */
const loadTimeOf = (model) => (/** @type {LoadSample} */ sample) =>
  MODELS[model].isFree ? sample.loadMs + Math.max(0, sample.firstMs - sample.runMs) : sample.loadMs;

/** Turns of each process. */
const TURNS = 12;

/** The runs per second with a store, by those without. @param {Setting} setting @param {ModelName} model @returns {Promise<Row>} */
async function runs(setting, model) {
  const variants = variantsOf(setting, model);
  /** @type {Record<string, number>[]} */
  const taken = [];
  const measure = async (/** @type {(done: number) => void} */ advance) => {
    for (let round = 0; round < setting.rounds; round++) {
      // Who starts first may get better memory, and the same process is fast or slow for all of its life.
      const names = [...variants, WITHOUT, STORE];
      const order = round % 2 === 0 ? names : names.toReversed();
      const choices = order.map((variant) => choiceOf(setting, variant, model));
      for (const times of await runsInTurns(choices, TURNS)) {
        const timeOf = (/** @type {string} */ variant) => /** @type {number} */ (mean(times.filter((_, i) => order[i] === variant)));
        taken.push(Object.fromEntries(variants.map((variant) => [variant, timeOf(variant)])));
      }
      advance(round + 1);
    }
  };
  await withProgress(`runs of ${model}`, measure, setting.rounds);
  const timeOfRun = (/** @type {string} */ variant) => (variants.includes(variant) ? medianOf(taken, (times) => times[variant]) : undefined);
  return barOf('runs per second', model, {
    value: medianOf(taken, (times) => times[WITHOUT] / times[STORE]),
    limit: 0.97,
    atLeast: true,
    format: times,
    note: shown(timeOfRun(STORE), formatDuration),
    ...cellsOf(timeOfRun, formatDuration),
  });
}

/** @param {Setting} setting @returns {Promise<Row[]>} */
async function load(setting) {
  const rows = [];
  for (const model of modelsOf(setting, 'load', /** @type {ModelName[]} */ (Object.keys(LOADS)))) {
    await fillStore(setting, model);
    /** @type {Record<string, LoadSample[]>} */
    const taken = await sample(setting, `loading of ${model}`, variantsOf(setting, model), (variant) => ({
      task: 'load',
      ...choiceOf(setting, variant, model),
    }));
    const timeOfLoad = (/** @type {string} */ variant) => medianOf(taken[variant], loadTimeOf(model));
    const both = (/** @type {number} */ ms, /** @type {string} */ variant) => {
      const withRun = /** @type {number} */ (medianOf(taken[variant], ({ loadMs, firstMs }) => loadMs + firstMs));
      return `${formatDuration(ms)} (${formatDuration(withRun)})`;
    };
    rows.push(
      barOf(`loading${MODELS[model].isFree ? ', with what the first run packs' : ''}`, model, {
        value: ratioOf(timeOfLoad(STORE), timeOfLoad(WITHOUT)),
        limit: LOADS[/** @type {keyof typeof LOADS} */ (model)],
        format: times,
        note: shown(timeOfLoad(STORE), (ms) => both(ms, STORE)),
        ...cellsOf(timeOfLoad, both),
      }),
      ...(setting.abilities.cache ? [await runs(setting, model)] : []),
    );
    const digests = new Set([...taken[WITHOUT], ...(taken[STORE] ?? [])].map(({ digest }) => digest));
    if (digests.size > 1) throw new Error(`${model}: results differ with and without a store`);
  }
  return rows;
}

/** The first load, which fills a store. @param {Setting} setting @returns {Promise<Row[]>} */
async function fill(setting) {
  const { folder, abilities } = setting;
  if (!abilities.cache) return [];
  const rows = [];
  for (const model of modelsOf(setting, 'fill', /** @type {ModelName[]} */ (Object.keys(LOADS)))) {
    let count = 0;
    const parametersOf = (/** @type {string} */ variant) => {
      const choice = choiceOf(setting, WITHOUT, model);
      if (variant === WITHOUT) return { task: 'load', ...choice };
      // A store that nothing has been written into.
      rmSync(join(folder, 'fresh'), { recursive: true, force: true });
      const cache = join(folder, 'fresh', `${model}-${count++}`);
      mkdirSync(cache, { recursive: true });
      return { task: 'fill', ...choice, cache };
    };
    const taken = await sample(setting, `filling of ${model}`, [WITHOUT, STORE], parametersOf);
    const filled = /** @type {import('./types.d.mts').FillSample[]} */ (taken[STORE]);
    const [without, first] = [WITHOUT, STORE].map((variant) => medianOf(/** @type {LoadSample[]} */ (taken[variant]), loadTimeOf(model)));
    const written = medianOf(filled, ({ writtenMs }) => writtenMs);
    const packed = medianOf(filled, ({ memory }) => (memory === undefined ? Number.NaN : memory.private + memory.shared + memory.mapped));
    const bytes = /** @type {number} */ (medianOf(filled, (one) => one.bytes));
    rows.push(
      barOf('the load that fills a store', model, {
        value: ratioOf(first, without),
        limit: 1.15,
        format: times,
        note: `${shown(first, formatDuration)}; written ${shown(written, formatDuration)} later`,
        without: shown(without, formatDuration),
      }),
      barOf('size of the store, by the packed bytes', model, {
        value: packed === undefined || Number.isNaN(packed) ? undefined : bytes / packed,
        limit: 1.05,
        format: times,
        note: megabytes(bytes),
      }),
    );
  }
  rmSync(join(folder, 'fresh'), { recursive: true, force: true });
  return rows;
}

/** @param {Setting} setting @param {string} label @param {Record<string, () => Promise<number>>} variants */
async function inTurns({ rounds }, label, variants) {
  const names = Object.keys(variants);
  /** @type {Record<string, number[]>} */
  const taken = Object.fromEntries(names.map((name) => [name, []]));
  const measure = async (/** @type {(done: number) => void} */ advance) => {
    let done = 0;
    for (let round = 0; round < rounds; round++) {
      for (const name of round % 2 === 0 ? names : names.toReversed()) {
        taken[name].push(await variants[name]());
        advance(++done);
      }
    }
  };
  await withProgress(label, measure, rounds * names.length);
  return Object.fromEntries(names.map((name) => [name, /** @type {number} */ (median(taken[name]))]));
}

/** @param {Setting} setting @param {string} variant */
const startOf = async (setting, variant) => {
  const { model: _, ...choice } = choiceOf(setting, variant, 'embedder');
  return (await timeOf(START, { ...choice, file: fileOf('embedder'), tokens: TOKENS })).toResult;
};

/** From the start of a process to the first embedding. @param {Setting} setting @returns {Promise<Row[]>} */
async function start(setting) {
  if (!setting.isWanted('start', 'embedder')) return [];
  await fillStore(setting, 'embedder');
  const variants = Object.fromEntries(variantsOf(setting, 'embedder').map((variant) => [variant, () => startOf(setting, variant)]));
  const taken = await inTurns(setting, 'start', { empty: async () => (await timeOf(EMPTY, {})).ms, ...variants });
  const cell = (/** @type {string} */ variant) => shown(taken[variant], (ms) => `${times(ms / taken.empty)} (${formatDuration(ms)})`);
  const note = `${shown(taken[STORE], formatDuration)}; empty ${formatDuration(taken.empty)}`;
  const result = { value: ratioOf(taken[STORE], taken.empty), limit: 2.2, format: times, note, without: cell(WITHOUT), peer: cell(PEER) };
  return [barOf('process start to the first embedding, by an empty process', 'embedder', result)];
}

/** How much longer than reading the store may take. */
const COLD_MS = 60;

/** The same with nothing in the page cache. @param {Setting} setting @returns {Promise<Row[]>} */
async function cold(setting) {
  if (!setting.isWanted('cold', 'embedder')) return [];
  await fillStore(setting, 'embedder');
  const { abilities } = setting;
  const [file] = abilities.cache ? storeFiles(setting, 'embedder') : [fileOf('embedder')];
  const drop = () => dropFromCache([fileOf('embedder'), ...(abilities.cache ? storeFiles(setting, 'embedder') : [])]);
  const fromDisk = (/** @type {() => Promise<number>} */ measure) => () => {
    drop();
    return measure();
  };
  const variants = Object.fromEntries(variantsOf(setting, 'embedder').map((variant) => [variant, fromDisk(() => startOf(setting, variant))]));
  const read = async () => {
    const taken = await sampleInTurns(
      ['read'],
      () => ({ worker: WORKER, parameters: { task: 'read', file } }),
      1,
      () => {},
    );
    return /** @type {{ ms: number }} */ (taken.read[0]).ms;
  };
  const taken = await inTurns(setting, 'cold start', { read: fromDisk(read), empty: async () => (await timeOf(EMPTY, {})).ms, ...variants });
  const limit = taken.read + COLD_MS;
  const cell = (/** @type {string} */ variant) => shown(taken[variant], formatDuration);
  const note = `reading takes ${formatDuration(taken.read)}, an empty process ${formatDuration(taken.empty)}`;
  return [barOf('the same, from the disk', 'embedder', { value: taken[STORE], limit, format: formatDuration, note, without: cell(WITHOUT), peer: cell(PEER) })];
}

/** A model without runs. @param {Setting} setting @returns {Promise<Row[]>} */
async function idle(setting) {
  const rows = [];
  for (const model of modelsOf(setting, 'idle', ['embedder'])) {
    await fillStore(setting, model);
    const variants = [setting.abilities.cache ? STORE : WITHOUT];
    const once = { ...setting, rounds: 1 };
    /** @type {Record<string, import('./types.d.mts').IdleSample[]>} */
    const taken = await sample(once, `${setting.seconds} s without runs`, variants, (variant) => ({
      task: 'idle',
      ...choiceOf(setting, variant, model),
      seconds: setting.seconds,
    }));
    const [{ switches, threads }] = taken[variants[0]];
    const note = formatPlural(threads, 'thread');
    rows.push(barOf(`context switches of our threads in ${setting.seconds} s`, model, { value: switches, limit: 0, format: String, note }));
  }
  return rows;
}

/** After this time without a run, a session gives its memory back. */
const IDLE_MS = 500;

/** @param {Setting} setting @returns {Promise<Row[]>} */
async function release(setting) {
  if (!setting.abilities.cache || !setting.abilities.idle) return [];
  const rows = [];
  for (const model of modelsOf(setting, 'release', ['embedder', 'gpt2', 'q4'])) {
    await fillStore(setting, model);
    const choice = choiceOf(setting, STORE, model);
    const parametersOf = (/** @type {string} */ variant) => (variant === 'warm' ? { task: 'load', ...choice } : { task: 'release', ...choice, idle: IDLE_MS });
    const taken = await sample(setting, `release of ${model}`, ['warm', 'release'], parametersOf);
    const released = /** @type {import('./types.d.mts').ReleaseSample[]} */ (taken.release);
    const warm = medianOf(/** @type {LoadSample[]} */ (taken.warm), ({ loadMs, firstMs }) => loadMs + firstMs);
    const next = medianOf(released, ({ nextMs }) => nextMs);
    const loaded = /** @type {number} */ (medianOf(released, (one) => one.loaded - one.before));
    rows.push(
      barOf('resident after idle release, above before', model, {
        value: medianOf(released, (one) => one.released - one.before),
        limit: 30e6,
        format: megabytes,
        note: `${megabytes(loaded)} loaded`,
      }),
      barOf('next runs with other bits', model, { value: released.filter(({ isSame }) => !isSame).length, limit: 0, format: String }),
      barOf('next run, by a warm load and run', model, {
        value: ratioOf(next, warm),
        limit: 1.2,
        format: times,
        note: `${shown(next, formatDuration)}; load and run ${shown(warm, formatDuration)}`,
      }),
    );
  }
  return rows;
}

/** Runs of the tiny model per second. */
const PER_SECOND = 6;

/** A process without a model. */
const TIMER = 'timer';

/** A tiny model that is asked now and then. @param {Setting} setting @returns {Promise<Row[]>} */
async function tiny(setting) {
  if (!setting.isWanted('tiny', 'denoise')) return [];
  const { rounds, seconds, hasPeer } = setting;
  /** @type {Record<string, import('./types.d.mts').TinySample[]>} */
  const taken = await sample(setting, 'runs now and then', [TIMER, WITHOUT, ...(hasPeer ? [PEER] : [])], (variant) => ({
    task: 'tiny',
    ...(variant === TIMER ? { engine: 'none' } : choiceOf(setting, variant, 'denoise')),
    seconds: Math.max(1, Math.round(seconds / rounds)),
    perSecond: PER_SECOND,
  }));
  const shareOf = (/** @type {string} */ variant) => medianOf(taken[variant], ({ cpuShare }) => cpuShare);
  const timer = /** @type {number} */ (shareOf(TIMER));
  const [share, peerShare] = [WITHOUT, PEER].map(shareOf).map((total) => total && total - timer);
  const [latency, peerLatency] = [WITHOUT, PEER].map((variant) => medianOf(taken[variant], ({ medianMs }) => medianMs));
  return [
    barOf(`${PER_SECOND} runs a second, of a core, beyond the timer alone`, 'denoise', {
      value: share,
      limit: 0.005,
      format: formatShare,
      note: `the timer ${formatShare(timer)}`,
      peer: shown(peerShare, formatShare),
    }),
    barOf('their latency, by onnxruntime’s', 'denoise', {
      value: ratioOf(latency, peerLatency),
      limit: 1,
      format: times,
      note: shown(latency, formatDuration),
      peer: shown(peerLatency, formatDuration),
    }),
  ];
}

/** By the names that --filter selects. @type {Record<string, { run: (setting: Setting) => Promise<Row[]>, models: ModelName[] }>} */
export const PARTS = {
  memory: { run: memory, models: ['embedder', 'gpt2', 'q4'] },
  load: { run: load, models: ['resnet50', 'embedder', 'gpt2', 'q4'] },
  start: { run: start, models: ['embedder'] },
  cold: { run: cold, models: ['embedder'] },
  fill: { run: fill, models: ['resnet50', 'embedder', 'gpt2', 'q4'] },
  idle: { run: idle, models: ['embedder'] },
  release: { run: release, models: ['embedder', 'gpt2', 'q4'] },
  tiny: { run: tiny, models: ['denoise'] },
};

// Starts the engines of `bench`, each in a process of its own, loads models, and measures the engines in turns.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { write } from '../files.mjs';
import { formatNpy } from '../npy.mjs';
import { withProgress } from '../progress.mjs';
import { startEngine } from './engines.mjs';
import { measure } from './measure.mjs';

/** @typedef {import('./process.mjs').EngineProcess} EngineProcess */

/**
 * The model that engines load, and how long to run it.
 * @typedef {object} Plan
 * @property {string} file
 * @property {import('../inputs.mjs').Feeds} feeds
 * @property {string[]} outputs
 * @property {Record<string, number>} [keepLast]
 * @property {string} from folder in which an engine that is not a dependency is installed
 * @property {'cpu' | 'gpu'} device
 * @property {number} [threads]
 * @property {string | true} [cache] of engines that have one
 * @property {number} [runs]
 * @property {number} seconds
 * @property {number} warmup
 */

/**
 * Starts engines; ends them in any case.
 * @template T
 * @param {string[]} names
 * @param {(engines: EngineProcess[], folder: string) => Promise<T>} use `folder` is for files that engines read and write
 * @returns {Promise<T>}
 */
export async function withEngines(names, use) {
  const engines = names.map(startEngine);
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-bench-'));
  // Also if the command is interrupted.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  try {
    return await use(engines, folder);
  } finally {
    await Promise.all(engines.map((engine) => engine.end()));
  }
}

/**
 * @param {EngineProcess} engine
 * @param {import('./types.mjs').LoadRequest} request
 */
async function load(engine, request) {
  const { version, loadMs } = await engine.request('load', request);
  // Before any other request, which would take memory as well.
  const { resident } = await engine.request('usage');
  return { version, loadMs, resident, processor: await engine.request('processor') };
}

/**
 * Loads a model in every engine, and measures the engines.
 * @template Sample
 * @param {EngineProcess[]} engines
 * @param {string} folder
 * @param {import('./measure.mjs').Subject<Sample>} subject
 * @param {Plan} plan
 */
export async function loadAndMeasure(engines, folder, subject, { file, feeds, outputs, keepLast, from, device, threads, cache, runs, seconds, warmup }) {
  const inputs = Object.fromEntries(Object.keys(feeds.tensors).map((name, i) => [name, path.join(folder, `input-${i}.npy`)]));
  await Promise.all(Object.entries(inputs).map(([name, input]) => write(input, formatNpy(feeds.tensors[name]))));
  const request = {
    model: path.resolve(file),
    inputs,
    outputs,
    device,
    threads,
    cache: typeof cache === 'string' ? path.resolve(cache) : cache,
    freeDimensions: feeds.freeDimensions,
    keepLast,
    from,
  };
  /** @type {Awaited<ReturnType<typeof load>>[]} */
  const loaded = [];
  for (const engine of engines) {
    loaded.push(await withProgress(`loading in ${engine.name}`, () => load(engine, request)));
  }
  const { samples, othersShare } = await withProgress(
    'measuring',
    (advance) => measure(engines, subject, { runs, seconds, warmup }, (part) => advance(100 * part)),
    100,
  );
  const usages = await Promise.all(engines.map((engine) => engine.request('usage')));
  const measured = engines.map(({ name }, i) => ({
    facts: { name, version: loaded[i].version, device, processor: loaded[i].processor },
    costs: { loadMs: loaded[i].loadMs, residentAfterLoad: loaded[i].resident, residentPeak: usages[i].peak },
    samples: samples[i],
  }));
  return { measured, othersShare };
}

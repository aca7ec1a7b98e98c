// `npm run bench -- models --device gpu`.

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { withProgress } from '../../packages/cli/lib/progress.mjs';
import { systemInfo } from '../../inspect.js';
import { Failure, say } from '../../scripts/process.mjs';
import { describeMachine } from '../machine.mjs';
import { modelsToMeasure } from '../models.mjs';
import { GPU_ENGINES, OURS, ratesCommand } from '../peers.mjs';
import { versionsOf } from '../report/rows.mjs';
import { measureOnGpu, Rates } from './measure.mjs';
import { PRODUCT_SIZES } from './targets.mjs';

/** Sizes of this package's single-operator graphs on a GPU, and on software that emulates one. */
/** @type {Record<'hardware' | 'software', import('../engines/gpu-rates.mjs').Wanted>} */
const RATES = {
  hardware: { copyBytes: 256 << 20, sizes: PRODUCT_SIZES, kinds: ['float32', 'float16'] },
  software: { copyBytes: 4 << 20, sizes: [256], kinds: ['float32', 'float16'] },
};

/** The device file of NVIDIA's driver on Linux. */
const NVIDIA_DEVICE = '/dev/nvidiactl';

/**
 * Returns why the peers cannot run; `undefined` if they can.
 *
 * @param {string} python
 */
function peersAreOut(python) {
  const program = 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else "torch.cuda.is_available() is False")';
  const { status, stderr, error } = spawnSync(python, ['-c', program], { encoding: 'utf8' });
  return status === 0 ? undefined : `PyTorch finds no CUDA: ${error?.message ?? stderr.trim().split('\n').at(-1)}`;
}

/**
 * Returns the engines of a run with their commands, and why others are missing.
 *
 * @param {import('../options.mjs').Options} options
 * @returns {Promise<{ commands: Record<string, string[]>, without?: string }>}
 */
async function enginesOf({ engines, python }) {
  const wanted = engines.filter((name) => name !== OURS);
  /** @type {Record<string, string[]>} */
  const commands = { [OURS]: await GPU_ENGINES[OURS].command() };
  if (wanted.length === 0) return { commands, without: 'no other engine was requested' };
  if (!existsSync(NVIDIA_DEVICE)) return { commands, without: `there is no CUDA here (no ${NVIDIA_DEVICE})` };
  const [found] = await GPU_ENGINES[wanted[0]].command(python);
  const without = peersAreOut(found);
  if (without === undefined) {
    for (const name of wanted) commands[name] = await GPU_ENGINES[name].command(found);
  }
  return { commands, without };
}

/**
 * Returns the engines for a model: float16 models do not run in float32.
 *
 * @param {import('../models.mjs').BenchModel} model
 * @param {string[]} engines
 */
const enginesFor = ({ kind }, engines) => engines.filter((name) => name === OURS || kind !== 'float16' || GPU_ENGINES[name].options.precision === 'float16');

/**
 * Returns the adapter of a compiled graph.
 *
 * @param {{ devices: string[], adapter: string | null }} graph
 * @param {Pick<import('../../inspect.js').SystemInfo, 'gpuAdapters' | 'gpuReason'>} system
 * @returns {import('../report/gpu.mjs').GpuRun['adapter']}
 * @throws {Failure} when the graph is not computed on a GPU
 */
export function adapterOf({ devices, adapter }, { gpuAdapters, gpuReason }) {
  const found = gpuAdapters.find(({ name, backend, unused }) => unused === null && `${name} (${backend})` === adapter);
  if (found === undefined || `${devices}` !== 'gpu') {
    throw new Failure(`The models are computed on ${devices}, adapter ${adapter}, expected a GPU: ${gpuReason ?? '`webnn-node info` lists adapters'}`, 2);
  }
  return found;
}

/**
 * Reads the peaks that another program measured.
 *
 * @param {string | undefined} file
 * @returns {import('../report/gpu.mjs').GpuRun['limits']}
 */
function readLimits(file) {
  if (file === undefined) return null;
  const limits = JSON.parse(readFileSync(file, 'utf8'));
  for (const name of ['copyGbps', 'float32Gflops', 'float16Gflops']) {
    if (!(limits[name] > 0)) {
      throw new Failure(`${file}: ${name} is ${JSON.stringify(limits[name])}, expected a positive number`, 2);
    }
  }
  return limits;
}

/** The adapter that contexts of this process use. @throws {Failure} without one */
function usableAdapter() {
  const system = systemInfo();
  const usable = system.gpuAdapters.find(({ unused }) => unused === null);
  if (usable === undefined) {
    throw new Failure(`There is no GPU to measure: ${system.gpuReason}. WEBNN_GPU_SOFTWARE=1 allows software that emulates one.`, 2);
  }
  return usable;
}

/**
 * Measures everything on a GPU.
 *
 * @param {import('../options.mjs').Options} options
 * @returns {Promise<import('../report/gpu.mjs').GpuRun>}
 */
export async function measureGpu(options) {
  const usable = usableAdapter();
  const limits = readLimits(options.gpuLimits);
  const models = await modelsToMeasure(options.models, options.filter);
  const { commands, without } = await enginesOf(options);
  const rates = new Rates(await ratesCommand(), RATES[usable.type === 'software' ? 'software' : 'hardware']);
  const measured = [];
  try {
    await rates.start();
    for (const model of models) {
      const plan = { engines: enginesFor(model, Object.keys(commands)), commands, samples: options.samples, ours: OURS };
      const results = await withProgress(model.name, () => measureOnGpu(model, plan, rates), 1);
      measured.push({ name: model.name, kind: model.kind, results });
      say(`${model.name}: ${results.map(({ engine, status }) => `${engine} ${status}`).join(', ')}`);
    }
  } finally {
    await rates.end();
  }
  const results = measured.flatMap((one) => one.results);
  const ours = results.find(({ graph }) => graph !== undefined)?.graph;
  return {
    date: new Date().toISOString(),
    machine: describeMachine(),
    adapter: ours === undefined ? usable : adapterOf(ours, systemInfo()),
    engines: Object.keys(commands),
    without: without ?? null,
    versions: versionsOf(results),
    limits,
    rates: rates.results(),
    models: measured,
  };
}

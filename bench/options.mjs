// The command line of the benchmark.

import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { checksOf, MAX_THREADS } from './arguments.mjs';
import { GPU_PEERS, OURS, PEERS } from './peers.mjs';

export const USAGE = `usage: npm run bench -- models [OPTION ...]

Runs models and compares their times with other engines, which are installed on demand.

  --device DEVICE    cpu or gpu (cpu); on a GPU, --threads, --loads, --no-limits and --svg have no effect
  --models DIR       folder of other models: NAME.onnx with NAME/in_*.npy and out_*.npy
  --threads LIST     numbers of threads, separated by commas (1 and 2, or 1 on a single processor)
  --against LIST     engines to compare with, of ${PEERS.join(', ')}; or none
                     (onnxruntime-node,onnxruntime,openvino,ncnn); on a GPU, all of ${GPU_PEERS.join(', ')}
  --python PROGRAM   on a GPU: a Python with PyTorch and onnx2torch (by default, one is installed)
  --gpu-limits FILE  on a GPU: JSON with measurements of another program: copyGbps, float32Gflops, float16Gflops
  --filter RE        only models whose name matches
  --samples N        samples of each engine, model and number of threads (11)
  --loads N          how often each model is loaded (3)
  --no-limits        do not measure the limits of the machine
  --json FILE        write all measurements
  --svg FILE         write the chart
  --write            write bench/RESULTS.md and bench/results.svg
  --help`;

const OPTIONS = /** @satisfies {import('node:util').ParseArgsOptionsConfig} */ ({
  device: { type: 'string', default: 'cpu' },
  python: { type: 'string' },
  'gpu-limits': { type: 'string' },
  models: { type: 'string' },
  threads: { type: 'string', default: availableParallelism() > 1 ? '1,2' : '1' },
  against: { type: 'string' },
  filter: { type: 'string', default: '' },
  samples: { type: 'string', default: '11' },
  loads: { type: 'string', default: '3' },
  'no-limits': { type: 'boolean', default: false },
  json: { type: 'string' },
  svg: { type: 'string' },
  write: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
});

const { wrong, parsed, integer, integers, someOf, pattern } = checksOf(USAGE);

/** The peers of a device, and the default ones. */
const PEERS_OF = {
  cpu: { all: PEERS, text: PEERS.join(',') },
  gpu: { all: GPU_PEERS, text: GPU_PEERS.join(',') },
};

/**
 * @param {'cpu' | 'gpu'} device
 * @param {string | undefined} given
 */
function peers(device, given) {
  const { all, text: byDefault } = PEERS_OF[device];
  const text = given ?? byDefault;
  return text === 'none' ? [] : someOf('against', text, all, ', or none');
}

/**
 * @typedef {object} Options
 * @property {'cpu' | 'gpu'} device
 * @property {string} [python]
 * @property {string} [gpuLimits]
 * @property {string} [models]
 * @property {number[]} threads
 * @property {string[]} engines this package first
 * @property {RegExp} filter
 * @property {number} samples
 * @property {number} loads
 * @property {boolean} limits
 * @property {string} [json]
 * @property {string} [svg]
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
  const { device } = values;
  if (device !== 'cpu' && device !== 'gpu') {
    throw wrong(`--device is ${device}, expected cpu or gpu`);
  }
  return {
    device,
    python: values.python,
    gpuLimits: values['gpu-limits'],
    models: values.models && resolve(values.models),
    threads: integers('threads', values.threads, MAX_THREADS),
    engines: [OURS, ...peers(device, values.against)],
    filter: pattern('filter', values.filter),
    samples: integer('samples', values.samples, 100_000),
    loads: integer('loads', values.loads, 1000),
    limits: !values['no-limits'],
    json: values.json,
    svg: values.svg,
    write: values.write,
  };
}

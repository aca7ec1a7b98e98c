// `npm run bench -- rounds`: recurrent cells in a Loop or a Scan of several lengths, in turns with onnxruntime-node.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import { median } from 'd3-array';
import { Output } from '../../packages/cli/lib/output.mjs';
import { withProgress } from '../../packages/cli/lib/progress.mjs';
import { entry, Failure, withUsage } from '../../scripts/process.mjs';
import { install } from '../peers.mjs';
import { sampleInTurns } from '../turns.mjs';
import { MODELS, modelOf } from './models.mjs';

const USAGE = `usage: npm run bench -- rounds [OPTION ...]

  --lengths LIST   numbers of rounds, separated by commas (10,100,3000)
  --threads N      number of threads (1)
  --samples N      how often everything is measured (3)
  --from FOLDER    with an installed onnxruntime-node, instead of one that is installed in bench/`;

const OURS = 'webnn-node';
const PEER = 'onnxruntime-node';
const WORKER = fileURLToPath(new URL('measure.mjs', import.meta.url));

/** Largest allowed relative difference between the means of results. */
const TOLERANCE = 1e-4;

function readArguments() {
  const options = /** @type {const} */ ({
    lengths: { type: 'string', default: '10,100,3000' },
    threads: { type: 'string', default: '1' },
    samples: { type: 'string', default: '3' },
    from: { type: 'string' },
  });
  return withUsage(USAGE, () => {
    const { values } = parseArgs({ options });
    const lengths = values.lengths.split(',').map(Number);
    const [threads, samples] = [values.threads, values.samples].map(Number);
    const wrong = [...lengths, threads, samples].find((number) => !(Number.isInteger(number) && number > 0));
    if (wrong !== undefined) throw new Error('numbers must be integers from 1');
    return { lengths, threads, samples, from: values.from };
  });
}

/**
 * Returns the medians of both engines.
 *
 * @param {object} parameters of a measurement
 * @param {number} samples
 * @param {(done: number) => void} advance
 */
async function compare(parameters, samples, advance) {
  const processOf = (/** @type {string} */ engine) => ({ worker: WORKER, parameters: { ...parameters, engine } });
  /** @type {Record<string, { ms: number, newMs: number, mean: number }[]>} */
  const taken = await sampleInTurns([OURS, PEER], processOf, samples, advance);
  const [ours, peer] = [OURS, PEER].map((engine) => taken[engine][0].mean);
  if (!(Math.abs(ours / peer - 1) <= TOLERANCE)) {
    throw new Failure(`${JSON.stringify(parameters)}: the means of results differ: ${ours} and ${peer}`);
  }
  return [OURS, PEER].map((engine) => ({
    ms: /** @type {number} */ (median(taken[engine], ({ ms }) => ms)),
    newMs: /** @type {number} */ (median(taken[engine], ({ newMs }) => newMs)),
  }));
}

await entry(async () => {
  const { lengths, threads, samples, from = dirname(import.meta.dirname) } = readArguments();
  if (from === dirname(import.meta.dirname)) await install([PEER]);
  const folder = mkdtempSync(join(tmpdir(), 'webnn-rounds-'));
  const rows = [];
  try {
    for (const { cell, operator } of MODELS) {
      const file = join(folder, `${cell}-${operator}.onnx`);
      writeFileSync(file, modelOf({ cell, operator }));
      for (const length of lengths) {
        const label = `${cell} in a ${operator}, ${length} rounds`;
        const parameters = { file, cell, threads, length, from };
        const [ours, peer] = await withProgress(label, (advance) => compare(parameters, samples, advance), 2 * samples);
        const perSecond = (/** @type {{ ms: number }} */ { ms }) => ((1000 * length) / ms).toFixed(0);
        const added = (/** @type {{ ms: number, newMs: number }} */ { ms, newMs }) => (newMs - ms).toFixed(2);
        const [ratio] = [(peer.ms / ours.ms).toFixed(2)];
        rows.push([cell, operator, String(length), perSecond(ours), perSecond(peer), ratio, added(ours), added(peer)]);
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  const output = new Output();
  output.heading(`Rounds per second and milliseconds that another length takes longer: ${OURS}, ${PEER}; medians of ${samples}`);
  output.table(['cell', 'operator', 'rounds', OURS, PEER, 'times as fast', `${OURS}: new length`, `${PEER}: new length`], rows);
});

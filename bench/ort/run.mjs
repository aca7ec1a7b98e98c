// `npm run bench -- ort`: embeds texts with Transformers.js on webnn-node-ort and on onnxruntime-node, in turns. FOLDER holds another
// sentence encoder than that of bench/zoo, and texts.json.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import { max, median } from 'd3-array';
import { Output } from '../../packages/cli/lib/output.mjs';
import { withProgress } from '../../packages/cli/lib/progress.mjs';
import { largestDifference } from '../../packages/cli/lib/statistics.mjs';
import { EXTERNAL, installExternal } from '../../scripts/external.mjs';
import { installReplaced, ORIGINAL, REPLACED } from '../../scripts/suites/ort-programs.mjs';
import { bytesOf } from '../../scripts/pack-local.mjs';
import { entry, Failure, npmOutput, withUsage } from '../../scripts/process.mjs';
import { describeMachine } from '../machine.mjs';
import { markdownTable } from '../report/markdown.mjs';
import { sampleInTurns } from '../turns.mjs';
import { writeEmbedder } from '../zoo/embedder.mjs';

const USAGE = `usage: npm run bench -- ort [FOLDER] [OPTION ...]

  --rounds N   how often everything is measured (3)
  --texts N    how many texts (500)
  --write      write bench/ort/RESULTS.md`;

const ENGINES = { 'webnn-node-ort': REPLACED, 'onnxruntime-node': ORIGINAL };
const [OURS, PEER] = Object.keys(ENGINES);

/**
 * Weight types, and the largest allowed difference between elements of unit vectors: 8-bit models round to other
 * integers.
 */
const TYPES = { fp32: 1e-4, q8: 5e-2 };
const BATCHES = [1, 64];

const WORKER = fileURLToPath(new URL('embed.mjs', import.meta.url));
const RESULTS = new URL('RESULTS.md', import.meta.url);

/** `>` marks columns of numbers. */
const HEAD = [
  'weights',
  '>texts per run',
  'engine',
  '>seconds',
  '>peak memory, MB',
  '>event loop during runs, p99, ms',
  '>longest, ms',
  '>with pooling, p99, ms',
  '>idle CPU, ms',
];

function readArguments() {
  const options = /** @type {const} */ ({
    rounds: { type: 'string', default: '3' },
    texts: { type: 'string', default: '500' },
    write: { type: 'boolean', default: false },
  });
  return withUsage(USAGE, () => {
    const { values, positionals } = parseArgs({ allowPositionals: true, options });
    if (positionals.length > 1) throw new Error('expected at most one folder');
    const [rounds, texts] = [values.rounds, values.texts].map(Number);
    const wrong = [rounds, texts].find((value) => !(Number.isInteger(value) && value > 0));
    if (wrong !== undefined) throw new Error('numbers must be integers from 1');
    return { folder: positionals[0] && resolve(positionals[0]), rounds, texts, write: values.write };
  });
}

/**
 * @typedef {{ folder: string, dtype: string, batch: number, texts: number }} Parameters of a measurement
 * @typedef {{ seconds: number, peakBytes: number, delayMs: number, runDelayMs: number, longestMs: number, idleMs: number, vectors: number[][] }} Sample
 */

/**
 * Takes samples of both engines in turns.
 *
 * @param {Parameters} parameters
 * @param {number} rounds
 * @param {(done: number) => void} advance
 * @throws {Failure} if they compute different vectors
 */
async function sample(parameters, rounds, advance) {
  const processOf = (/** @type {string} */ engine) => {
    const project = ENGINES[/** @type {keyof typeof ENGINES} */ (engine)];
    return { worker: WORKER, parameters: { ...parameters, project } };
  };
  /** @type {Record<string, Sample[]>} */
  const taken = await sampleInTurns([OURS, PEER], processOf, rounds, advance);
  const [ours, peers] = [OURS, PEER].map((engine) => taken[engine][0].vectors);
  const difference = Math.max(...ours.map((vector, at) => largestDifference(vector, peers[at])));
  if (!(difference <= TYPES[/** @type {keyof typeof TYPES} */ (parameters.dtype)])) {
    throw new Failure(`${parameters.dtype}, ${parameters.batch} texts per run: vectors differ by ${difference}`);
  }
  return taken;
}

/**
 * Returns the bytes that packages and their dependencies take in an empty project, installed without scripts.
 *
 * @param {string[]} packages as `npm install` takes them
 */
function installedBytes(packages) {
  const project = mkdtempSync(join(tmpdir(), 'webnn-size-'));
  try {
    writeFileSync(join(project, 'package.json'), '{ "private": true }');
    const args = ['install', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', ...packages];
    npmOutput('installation', args, { cwd: project });
    return bytesOf(join(project, 'node_modules'));
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}

/**
 * @param {string} dtype
 * @param {number} batch
 * @param {Record<string, Sample[]>} taken
 * @returns {string[][]} the rows of the table: medians, and of memory and delays the largest
 */
function rowsOf(dtype, batch, taken) {
  return [OURS, PEER].map((engine, at) => {
    const samples = taken[engine];
    const middle = (/** @type {(sample: Sample) => number} */ of) => /** @type {number} */ (median(samples, of));
    const most = (/** @type {(sample: Sample) => number} */ of) => /** @type {number} */ (max(samples, of));
    return [
      ...(at === 0 ? [dtype, String(batch)] : ['', '']),
      engine,
      middle(({ seconds }) => seconds).toFixed(2),
      (most(({ peakBytes }) => peakBytes) / 1e6).toFixed(0),
      most(({ runDelayMs }) => runDelayMs).toFixed(1),
      most(({ longestMs }) => longestMs).toFixed(1),
      most(({ delayMs }) => delayMs).toFixed(1),
      most(({ idleMs }) => idleMs).toFixed(1),
    ];
  });
}

await entry(async () => {
  const { folder: given, rounds, texts, write } = readArguments();
  const folder = given ?? (await writeEmbedder());
  await installExternal();
  const packed = await installReplaced();
  const rows = [];
  for (const dtype of Object.keys(TYPES)) {
    for (const batch of BATCHES) {
      const parameters = { folder, dtype, batch, texts };
      const taken = await withProgress(`${dtype}, ${batch} per run`, (advance) => sample(parameters, rounds, advance), 2 * rounds);
      rows.push(...rowsOf(dtype, batch, taken));
    }
  }
  const { dependencies } = JSON.parse(readFileSync(join(EXTERNAL, 'package.json'), 'utf8'));
  const peer = `${PEER}@${dependencies[PEER]}`;
  const megabytes = [packed, [peer]].map((packages) => (installedBytes(packages) / 1e6).toFixed(1));
  const sizes = `Installed into an empty project, without scripts: ${OURS} ${megabytes[0]} MB, ${PEER} ${megabytes[1]} MB.`;
  const title = `${texts} texts embedded with Transformers.js`;
  const output = new Output();
  output.heading(title);
  output.table(
    HEAD.map((name) => name.replace('>', '')),
    rows,
  );
  output.print(sizes);
  if (write) {
    const { cpu, processors, system, node } = describeMachine();
    const about =
      `${new Date().toISOString().slice(0, 10)}, ${cpu}, ${processors} processors, ${system}, Node ${node}, ${peer.replace('@', ' ')}. ` +
      `Medians of ${rounds} processes for each engine, taken in turns; memory, delays and idle CPU are the worst of them. ` +
      'The event loop is watched during runs, and with `monitorEventLoopDelay` during all of the work, where Transformers.js tokenizes and ' +
      'averages vectors on the same thread. Idle CPU is measured for one second, beginning ' +
      'one second after the last run. Both engines compute the same vectors.';
    const repeat = 'To repeat it: `npm run bench -- ort --write`.';
    writeFileSync(RESULTS, `# ${title}\n\n${about}\n\n${markdownTable({ title, head: HEAD, rows }).join('\n')}\n\n${sizes}\n\n${repeat}\n`);
  }
});

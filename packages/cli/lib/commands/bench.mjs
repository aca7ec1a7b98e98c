// `webnn-node bench`: how fast a model runs, alone or against another engine.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Option } from 'commander';
import { ENGINES, startEngine } from '../bench/engines.mjs';
import { measure } from '../bench/measure.mjs';
import { Failure } from '../errors.mjs';
import { write } from '../files.mjs';
import { formatBytes, formatDuration, formatNumber, formatShare, formatRate, printable } from '../format.mjs';
import { histogramLines, histogramSvg } from '../histogram.mjs';
import { RANDOM } from '../inputs.mjs';
import { readFeeds, readModel } from '../model.mjs';
import { formatNpy, readNpy } from '../npy.mjs';
import { deviceOption, freeDimensionOption, INPUT_HELP, inputOptions, refuseIdle, runsOption, secondsOption, threadsOption, warmupOption } from '../options.mjs';
import { withProgress } from '../progress.mjs';
import { compareTensors, summarizeTimes } from '../statistics.mjs';

/** @typedef {import('../bench/process.mjs').EngineProcess} EngineProcess */
/** @typedef {Awaited<ReturnType<typeof runEngines>>['results'][number]} Result */

const [OWN, OTHER] = Object.keys(ENGINES);

/** Seconds of each engine where nothing else is asked for. */
const SECONDS = 3;

/** Other processes that take more of the machine than this can change the result. */
const BUSY_SHARE = 0.1;

/** Outputs further apart than this, relative to the largest value, are no rounding of float32 or float16. */
const TOLERANCE = /** @type {Record<string, number>} */ ({ float32: 1e-3, float16: 2e-2 });

const HELP = `${INPUT_HELP}
Inputs without a value are random.

Each engine has its own process. They run in turns (A B A B ...), on the same
inputs and the same device, and their outputs are compared. Times are those of
one inference from typed arrays to typed arrays. onnxruntime-node is not a
dependency; it is looked for in the current folder, or in that of
--against-from, and installed with: npm install onnxruntime-node

Examples:
  webnn-node bench model.onnx
  webnn-node bench model.onnx --input photo.jpg --threads 1 --seconds 10
  webnn-node bench model.onnx --against onnxruntime-node --svg times.svg
  webnn-node bench model.onnx --free-dimension batch=8 --runs 100 --json`;

/**
 * Refuses where the other engine is not installed.
 * @param {string} from
 */
function requireOther(from) {
  if (!existsSync(from)) throw new Failure(`--against-from ${printable(from)}: there is no such folder`);
  try {
    createRequire(path.join(from, 'any.js')).resolve(OTHER);
  } catch (caught) {
    const cause = /** @type {NodeJS.ErrnoException} */ (caught);
    if (cause.code !== 'MODULE_NOT_FOUND') throw cause;
    throw new Failure(`${OTHER} is not installed in ${printable(from)}; install it there with: npm install ${OTHER}\n(or name another folder with --against-from)`, { cause });
  }
}

/**
 * The outputs of two engines side by side.
 * @param {string[]} names
 * @param {import('../types.mjs').Tensor[]} own
 * @param {import('../types.mjs').Tensor[]} other
 */
function compareOutputs(names, own, other) {
  return names.map((name, i) => {
    const { dataType } = own[i];
    const difference = compareTensors(own[i], other[i]);
    return { name, dataType, ...difference, agrees: difference.relative <= (TOLERANCE[dataType] ?? 0) };
  });
}

/**
 * Outputs of one more run.
 * @param {EngineProcess} engine
 * @param {number} count how many there are
 * @param {string} folder for files
 */
async function outputsOf(engine, count, folder) {
  const files = Array.from({ length: count }, (_, i) => path.join(folder, `${engine.name}-${i}.npy`));
  await engine.request('save', { files });
  return Promise.all(files.map((file) => readNpy(file)));
}

/**
 * @param {EngineProcess} engine
 * @param {import('../bench/types.mjs').LoadRequest} request
 */
async function load(engine, request) {
  const { version, loadMs } = await engine.request('load', request);
  // Before anything else is asked of it, which takes memory, too.
  const { resident } = await engine.request('usage');
  return { version, loadMs, resident, processor: await engine.request('processor') };
}

/**
 * Loads, measures and compares.
 * @param {EngineProcess[]} engines
 * @param {{ file: string, feeds: import('../inputs.mjs').Feeds, outputs: string[], from: string, options: import('../types.mjs').Options }} plan
 * @param {string} folder for files that engines read and write
 */
async function runEngines(engines, { file, feeds, outputs, from, options }, folder) {
  const { device, threads, runs, warmup, seconds = SECONDS } = options;
  const inputs = Object.fromEntries(Object.keys(feeds.tensors).map((name, i) => [name, path.join(folder, `input-${i}.npy`)]));
  await Promise.all(Object.entries(inputs).map(([name, input]) => write(input, formatNpy(feeds.tensors[name]))));
  const request = { model: path.resolve(file), inputs, outputs, device, threads, freeDimensions: feeds.freeDimensions, from };
  /** @type {Awaited<ReturnType<typeof load>>[]} */
  const loaded = [];
  for (const engine of engines) {
    loaded.push(await withProgress(`loading in ${engine.name}`, () => load(engine, request)));
  }
  const { samples, othersShare } = await withProgress('measuring', (advance) =>
    measure(engines, { runs, seconds, warmup }, (part) => advance(100 * part)), 100);
  const usages = await Promise.all(engines.map((engine) => engine.request('usage')));
  const results = engines.map(({ name }, i) => ({
    name,
    version: loaded[i].version,
    device,
    processor: loaded[i].processor,
    ...summarizeTimes(samples[i]),
    loadMs: loaded[i].loadMs,
    residentAfterLoad: loaded[i].resident,
    residentPeak: usages[i].peak,
    samples: samples[i],
  }));
  if (engines.length === 1) return { results, othersShare };
  const [own, other] = await Promise.all(engines.map((engine) => outputsOf(engine, outputs.length, folder)));
  return { results, othersShare, agreement: compareOutputs(outputs, own, other) };
}

/**
 * @param {import('../output.mjs').Output} output
 * @param {Result[]} results
 */
function printTable(output, results) {
  output.table(
    ['engine', 'device', '>median', '>p95', '>min', '>runs/s', '>runs', '>load', '>memory', '>peak'],
    results.map((engine) => [
      `${engine.name} ${engine.version}`, `${engine.device.toUpperCase()} (${engine.processor})`, formatDuration(engine.median), formatDuration(engine.p95), formatDuration(engine.min),
      formatRate(engine.throughput), engine.runs, formatDuration(engine.loadMs), formatBytes(engine.residentAfterLoad), formatBytes(engine.residentPeak),
    ]),
  );
}

/**
 * One line about who is faster, by the medians.
 * @param {import('../output.mjs').Output} output
 * @param {number} ratio
 * @param {string} where
 */
function printRatio(output, ratio, where) {
  const text = ratio <= 1 ? `${OWN} is ${formatRate(1 / ratio)}x as fast as ${OTHER}` : `${OTHER} is ${formatRate(ratio)}x as fast as ${OWN}`;
  output.print('', output.style('bold', text) + ` (medians, ${where})`);
}

/**
 * @param {import('../output.mjs').Output} output
 * @param {ReturnType<typeof compareOutputs>} agreement
 */
function printAgreement(output, agreement) {
  for (const { name, dataType, maxAbsolute, relative, agrees } of agreement) {
    const difference = `the largest difference is ${formatNumber(maxAbsolute)}, ${formatNumber(relative)} of the largest value`;
    const text = `output ${printable(name)} (${dataType}) ${agrees ? 'agrees' : 'differs'}: ${difference}`;
    output.print(output.style(agrees ? 'green' : 'red', text));
  }
}

/** @type {import('../types.mjs').CommandDefinition['execute']} */
async function execute(output, [file], options, isGiven) {
  if (options.against === undefined) refuseIdle(isGiven, ['againstFrom'], 'no engine is measured --against this one');
  if (options.device === 'gpu') refuseIdle(isGiven, ['threads'], 'the GPU computes');
  const from = path.resolve(options.againstFrom ?? '.');
  if (options.against !== undefined) requireOther(from);
  const model = await readModel(file, options.freeDimension);
  const feeds = await readFeeds(model.inputs, options, RANDOM);
  const outputs = model.outputs.map(({ name }) => name);
  const engines = [OWN, ...(options.against === undefined ? [] : [OTHER])].map(startEngine);
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-bench-'));
  // Also of a command that is interrupted.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  let measured;
  try {
    measured = await runEngines(engines, { file, feeds, outputs, from, options }, folder);
  } finally {
    await Promise.all(engines.map((engine) => engine.end()));
  }
  const { results, othersShare, agreement } = measured;
  const ratio = results.length === 2 ? results[0].median / results[1].median : undefined;
  const where = `on the ${options.device.toUpperCase()}`;
  const title = `${path.basename(file)}: time of one run ${where}`;
  if (options.svg !== undefined) await write(options.svg, histogramSvg(results, title));
  output.document({ model: file, device: options.device, threads: options.threads ?? null, engines: results, ratio, agreement, othersShare });

  printTable(output, results);
  if (ratio !== undefined) printRatio(output, ratio, where);
  if (agreement !== undefined) printAgreement(output, agreement);
  output.heading(`Times of one run ${where}`);
  output.print(...histogramLines(results, output.width, (i, text) => output.style(i === 0 ? 'blue' : 'yellow', text)));
  if (options.svg !== undefined) output.print('', `wrote ${printable(options.svg)}`);
  if (othersShare > BUSY_SHARE) {
    output.note(`the machine was busy: other processes took ${formatShare(othersShare)} of its CPU time meanwhile`);
  }
}

/** @type {import('../types.mjs').CommandDefinition} */
export default {
  name: 'bench',
  description: 'Measures how fast a model runs and how much memory it takes, alone or against another engine.',
  define: (command) => {
    command.argument('<model>', 'an ONNX file');
    for (const option of inputOptions()) command.addOption(option);
    command
      .addOption(freeDimensionOption())
      .addOption(new Option('--against <ENGINE>', 'measure this engine too').choices([OTHER]))
      .option('--against-from <DIR>', 'folder in which that engine is installed (default: the current one)')
      .addOption(deviceOption('where every engine computes'))
      .addOption(threadsOption())
      .addOption(runsOption('runs of each engine'))
      .addOption(secondsOption(SECONDS).conflicts('runs'))
      .addOption(warmupOption())
      .option('--svg <FILE>', 'write the histogram as a picture');
  },
  execute,
  help: HELP,
};

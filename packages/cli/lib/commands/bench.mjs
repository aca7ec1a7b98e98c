// `webnn-node bench`: how fast a model runs, alone or against another engine.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Option } from 'commander';
import { Engine } from '../bench/engine.mjs';
import { measure } from '../bench/measure.mjs';
import { Failure } from '../errors.mjs';
import { write } from '../files.mjs';
import { formatBytes, formatDuration, formatNumber, formatShare, formatRate, printable } from '../format.mjs';
import { histogramLines, histogramSvg } from '../histogram.mjs';
import { RANDOM } from '../inputs.mjs';
import { readFeeds, readModel } from '../model.mjs';
import { deviceOption, freeDimensionOption, INPUT_HELP, inputOptions, refuseIdle, runsOption, secondsOption, threadsOption, warmupOption } from '../options.mjs';
import { withProgress } from '../progress.mjs';
import { compareTensors, summarizeSamples } from '../statistics.mjs';

/** @typedef {Awaited<ReturnType<typeof runEngines>>['results'][number]} Result */

const OWN = 'webnn-node';
const OTHER = 'onnxruntime-node';

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
 * @param {import('../types.mjs').Tensors} own
 * @param {import('../types.mjs').Tensors} other
 */
function compareOutputs(own, other) {
  return Object.entries(own).map(([name, tensor]) => {
    if (!Object.hasOwn(other, name)) throw new Failure(`${OTHER} has no output ${printable(name)}`);
    const { dataType } = tensor;
    const difference = compareTensors(tensor, other[name]);
    return { name, dataType, ...difference, agrees: difference.relative <= (TOLERANCE[dataType] ?? 0) };
  });
}

/**
 * Loads, measures and compares.
 * @param {Engine[]} engines
 * @param {{ file: string, feeds: import('../inputs.mjs').Feeds, from: string, options: import('../types.mjs').Options }} plan
 */
async function runEngines(engines, { file, feeds, from, options }) {
  const { device, threads, runs, warmup, seconds = SECONDS } = options;
  const loadOptions = { model: path.resolve(file), device, threads, freeDimensions: feeds.freeDimensions, from };
  const loaded = /** @type {Awaited<ReturnType<Engine['load']>>[]} */ ([]);
  for (const engine of engines) {
    loaded.push(await withProgress(`loading in ${engine.name}`, () => engine.load(loadOptions, feeds.tensors)));
  }
  const { samples, othersShare } = await withProgress('measuring', (advance) =>
    measure(engines, { runs, seconds, warmup }, (part) => advance(100 * part)), 100);
  const outputs = await Promise.all(engines.map((engine) => engine.outputs()));
  const usages = await Promise.all(engines.map((engine) => engine.usage()));
  const results = engines.map(({ name }, i) => ({
    name,
    version: loaded[i].version,
    device,
    processor: loaded[i].processor,
    ...summarizeSamples(samples[i]),
    loadMs: loaded[i].loadMs,
    residentAfterLoad: loaded[i].resident,
    residentPeak: usages[i].peak,
    samples: samples[i],
  }));
  return { results, othersShare, agreement: outputs.length === 2 ? compareOutputs(outputs[0], outputs[1]) : undefined };
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
  const { inputs } = await readModel(file, options.freeDimension);
  const feeds = await readFeeds(inputs, options, RANDOM);
  const engines = [new Engine(OWN), ...(options.against === undefined ? [] : [new Engine(OTHER)])];
  let measured;
  try {
    measured = await runEngines(engines, { file, feeds, from, options });
  } finally {
    for (const engine of engines) engine.end();
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

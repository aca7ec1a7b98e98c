// `webnn-node bench`: how fast a model runs, alone or against another engine.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Option } from 'commander';
import { loadAndMeasure, withEngines } from '../bench/compare.mjs';
import { ENGINES } from '../bench/engines.mjs';
import { generateRequest, measureGeneration, printEqualIds, printGenerationTable } from '../bench/generation.mjs';
import { INFERENCE } from '../bench/measure.mjs';
import { Failure } from '../errors.mjs';
import { write } from '../files.mjs';
import { formatBytes, formatDuration, formatNumber, formatPlural, formatShare, formatRate, printable } from '../format.mjs';
import { histogramLines, histogramSvg } from '../histogram.mjs';
import { RANDOM } from '../inputs.mjs';
import { readFeeds, readModel } from '../model.mjs';
import { readNpy } from '../npy.mjs';
import {
  cacheOption,
  freeDimensionOption,
  generateOption,
  INPUT_HELP,
  inputOptions,
  processorOptions,
  refuseIdle,
  requireThreadsOnCpu,
  runsOption,
  secondsOption,
  warmupOption,
} from '../options.mjs';
import { compareTensors, summarizeTimes } from '../statistics.mjs';

/** @typedef {import('../bench/process.mjs').EngineProcess} EngineProcess */
/** @typedef {Awaited<ReturnType<typeof measureRuns>>['results'][number]} Result */

const [OWN, OTHER] = Object.keys(ENGINES);

/** Input options, in camel case. */
const INPUT_OPTIONS = inputOptions().map((option) => option.attributeName());

/** Default seconds per engine. */
const SECONDS = 3;

/** Default warm-up texts of `--generate`: a text takes much longer than a run. */
const WARMUP_TEXTS = 1;

/** Above this share of the machine, other processes can distort the result. */
const BUSY_SHARE = 0.1;

/**
 * Outputs that differ by more than this, relative to the largest value, differ by more than rounding to float32 or
 * float16.
 */
const TOLERANCE = /** @type {Record<string, number>} */ ({ float32: 1e-3, float16: 2e-2 });

const HELP = `${INPUT_HELP}
Inputs without a value are random.

Each engine has its own process. The engines take turns (A B A B ...) on the
same inputs and device, and their outputs are compared. Times are for one run,
from typed arrays to typed arrays. onnxruntime-node is not a dependency; it is
loaded from the current folder or from --against-from. Install it with:
npm install onnxruntime-node

--generate measures a language model with a cache that was exported for
Transformers.js (input_ids, past_key_values.0.key). Each run reads PROMPT random
tokens, then generates TOKENS tokens, always the most likely one. Times are for
the prompt, up to the first token, and for each further token. By default, one
run is a warm-up. With --against, the generated tokens are compared.

Examples:
  webnn-node bench model.onnx
  webnn-node bench model.onnx --input photo.jpg --threads 1 --seconds 10
  webnn-node bench model.onnx --against onnxruntime-node --svg times.svg
  webnn-node bench model.onnx --free-dimension batch=8 --runs 100 --json
  webnn-node bench llm/onnx/model_q4.onnx --generate 128,32 --threads 4`;

/**
 * Fails if the other engine is not installed.
 * @param {string} from
 */
function requireOther(from) {
  if (!existsSync(from)) throw new Failure(`--against-from ${printable(from)}: there is no such folder`);
  try {
    createRequire(path.join(from, 'any.js')).resolve(OTHER);
  } catch (caught) {
    const cause = /** @type {NodeJS.ErrnoException} */ (caught);
    if (cause.code !== 'MODULE_NOT_FOUND') throw cause;
    throw new Failure(
      `${OTHER} is not installed in ${printable(from)}; install it there with: npm install ${OTHER}\n(or name another folder with --against-from)`,
      { cause },
    );
  }
}

/**
 * Compares the outputs of two engines.
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
 * Runs once more, and returns the outputs.
 * @param {EngineProcess} engine
 * @param {number} count number of outputs
 * @param {string} folder for files
 */
async function outputsOf(engine, count, folder) {
  const files = Array.from({ length: count }, (_, i) => path.join(folder, `${engine.name}-${i}.npy`));
  await engine.request('save', { files });
  return Promise.all(files.map((file) => readNpy(file)));
}

/**
 * Loads, measures and compares runs of a model.
 * @param {EngineProcess[]} engines
 * @param {string} folder for files that engines read and write
 * @param {import('../bench/compare.mjs').Plan} plan
 */
async function measureRuns(engines, folder, plan) {
  const { measured, othersShare } = await loadAndMeasure(engines, folder, INFERENCE, plan);
  const results = measured.map(({ facts, costs, samples }) => ({ ...facts, ...summarizeTimes(samples), ...costs, samples }));
  if (engines.length === 1) return { results, othersShare };
  const { outputs } = plan;
  const [own, other] = await Promise.all(engines.map((engine) => outputsOf(engine, outputs.length, folder)));
  return { results, othersShare, ratio: results[0].median / results[1].median, agreement: compareOutputs(outputs, own, other) };
}

/**
 * @param {import('../output.mjs').Output} output
 * @param {Result[]} results
 */
function printTable(output, results) {
  output.table(
    ['engine', 'device', '>median', '>p95', '>min', '>runs/s', '>runs', '>load', '>memory', '>peak'],
    results.map((engine) => [
      `${engine.name} ${engine.version}`,
      `${engine.device.toUpperCase()} (${engine.processor})`,
      formatDuration(engine.median),
      formatDuration(engine.p95),
      formatDuration(engine.min),
      formatRate(engine.throughput),
      engine.runs,
      formatDuration(engine.loadMs),
      formatBytes(engine.residentAfterLoad),
      formatBytes(engine.residentPeak),
    ]),
  );
}

/**
 * Prints which engine is faster, by the medians.
 * @param {import('../output.mjs').Output} output
 * @param {number} ratio
 * @param {string} where
 */
function printRatio(output, ratio, where) {
  const text = ratio <= 1 ? `${OWN} is ${formatRate(1 / ratio)}x as fast as ${OTHER}` : `${OTHER} is ${formatRate(ratio)}x as fast as ${OWN}`;
  output.print(output.style('bold', text) + ` (medians, ${where})`);
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

/**
 * Writes the picture, the document, and the text for people.
 * @param {import('../output.mjs').Output} output
 * @param {{ name: string, samples: number[], median: number }[]} results
 * @param {{ document: object, what: string, file: string, svg?: string, othersShare: number, print: () => void }}
 *   report `what` names the timed thing; `print` writes the text above the histogram
 */
async function report(output, results, { document, what, file, svg, othersShare, print }) {
  if (svg !== undefined) await write(svg, histogramSvg(results, `${path.basename(file)}: time of one ${what}`));
  output.document(document);
  print();
  output.heading(`Times of one ${what}`);
  output.print(...histogramLines(results, output.width, (i, text) => output.style(i === 0 ? 'blue' : 'yellow', text)));
  if (svg !== undefined) output.print('', `wrote ${printable(svg)}`);
  if (othersShare > BUSY_SHARE) {
    output.note(`the machine was busy: other processes took ${formatShare(othersShare)} of its CPU time meanwhile`);
  }
}

/**
 * The parsed command line, without the part that says what to measure.
 * @typedef {object} Setting
 * @property {string} file
 * @property {import('webnn-node/onnx').OnnxInspection} model
 * @property {string[]} engines names
 * @property {Omit<import('../bench/compare.mjs').Plan, 'feeds'>} plan
 * @property {string} where
 */

/**
 * `bench`: measures runs.
 * @param {import('../output.mjs').Output} output
 * @param {Setting} setting
 * @param {import('../types.mjs').Options} options
 */
async function benchRuns(output, { file, model, engines: names, plan, where }, options) {
  const feeds = await readFeeds(model, options, RANDOM);
  const { results, othersShare, ratio, agreement } = await withEngines(names, (engines, folder) => measureRuns(engines, folder, { ...plan, feeds }));
  const document = { model: file, device: plan.device, threads: plan.threads ?? null, engines: results, ratio, agreement, othersShare };
  const print = () => {
    printTable(output, results);
    if (ratio === undefined) return;
    output.print('');
    printRatio(output, ratio, where);
    printAgreement(output, agreement);
  };
  await report(output, results, { document, what: `run ${where}`, file, svg: options.svg, othersShare, print });
}

/**
 * `bench --generate`: measures texts, token by token.
 * @param {import('../output.mjs').Output} output
 * @param {Setting} setting
 * @param {[prompt: number, tokens: number]} lengths
 * @param {string | undefined} svg
 */
async function benchGeneration(output, { file, model, engines: names, plan, where }, lengths, svg) {
  const request = generateRequest(model, lengths);
  const { results, othersShare, ratio, agreement } = await withEngines(names, (engines, folder) => measureGeneration(engines, folder, request, plan));
  const [prompt, tokens] = lengths;
  const document = { model: file, device: plan.device, threads: plan.threads ?? null, prompt, tokens, engines: results, ratio, agreement, othersShare };
  const print = () => {
    printGenerationTable(output, results);
    if (ratio === undefined) return;
    output.print('');
    printRatio(output, ratio.prompt, `a prompt of ${formatPlural(prompt, 'token')} ${where}`);
    printRatio(output, ratio.token, `each of ${formatPlural(tokens - 1, 'further token')} ${where}`);
    printEqualIds(output, agreement);
  };
  await report(output, results, { document, what: `token ${where}`, file, svg, othersShare, print });
}

/** @type {import('../types.mjs').CommandDefinition['execute']} */
async function execute(output, [file], options, isGiven) {
  const { against, cache, device, generate, threads, runs, seconds = SECONDS } = options;
  if (against === undefined) refuseIdle(isGiven, ['againstFrom'], 'no engine is measured --against this one');
  requireThreadsOnCpu(isGiven, device);
  if (generate !== undefined) refuseIdle(isGiven, [...INPUT_OPTIONS, 'freeDimension'], '--generate makes the inputs');
  const from = path.resolve(options.againstFrom ?? '.');
  if (against !== undefined) requireOther(from);
  const model = await readModel(file, options.freeDimension);
  const warmup = generate !== undefined && !isGiven('warmup') ? WARMUP_TEXTS : options.warmup;
  const plan = { file, outputs: model.outputs.map(({ name }) => name), from, device, threads, cache, runs, seconds, warmup };
  const setting = { file, model, engines: [OWN, ...(against === undefined ? [] : [OTHER])], plan, where: `on the ${device.toUpperCase()}` };
  await (generate === undefined ? benchRuns(output, setting, options) : benchGeneration(output, setting, generate, options.svg));
}

/** @type {import('../types.mjs').CommandDefinition} */
export default {
  name: 'bench',
  description: 'Measures how fast a model runs and how much memory it takes, alone or against another engine.',
  define: (command) => {
    command.argument('<model>', 'an ONNX file');
    for (const option of [...inputOptions(), freeDimensionOption(), generateOption()]) command.addOption(option);
    command
      .addOption(new Option('--against <ENGINE>', 'measure this engine too').choices([OTHER]))
      .option('--against-from <DIR>', 'folder in which that engine is installed (default: the current one)');
    for (const option of [...processorOptions('every engine'), cacheOption()]) command.addOption(option);
    command
      .addOption(runsOption('runs of each engine'))
      .addOption(secondsOption(SECONDS).conflicts('runs'))
      .addOption(warmupOption())
      .option('--svg <FILE>', 'write the histogram as a picture');
  },
  execute,
  help: HELP,
};

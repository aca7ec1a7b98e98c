// `webnn-node run`: runs a model on inputs and shows its outputs.
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { compile } from '../compile.mjs';
import { feedsOf, shapesOf } from 'webnn-node-text/elements';
import { Failure } from '../errors.mjs';
import { write } from '../files.mjs';
import { formatDuration, formatNumber, formatShare, formatShape, printable } from '../format.mjs';
import { classify, readLabels, scoresAmong } from '../labels.mjs';
import { readFeeds, readModel, withLoaded } from '../model.mjs';
import { formatNpy } from '../npy.mjs';
import { cacheOption, freeDimensionOption, INPUT_HELP, inputOptions, processorOptions, refuseIdle, requireThreadsOnCpu, topOption } from '../options.mjs';
import { withProgress } from '../progress.mjs';
import { describeTensor } from '../statistics.mjs';

const HELP = `${INPUT_HELP}

Pictures are rotated upright, converted to RGB (gray for one channel), resized,
cropped, and mapped to (value * scale - mean) / std, which is -1 to 1 by
default. Integer inputs get the plain values 0 to 255. torchvision's models take
--resize 256 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225.

Labels are a text file with one per line, or JSON: an array, or an object from
index to label.

Examples:
  webnn-node run model.onnx --input photo.jpg --labels labels.txt --top 3
  webnn-node run model.onnx --input photo.jpg --mean 0 --std 1 --stretch
  webnn-node run model.onnx --input x=x.npy --output-dir results
  webnn-node run model.onnx --input ids=101,7592,102 --json
  webnn-node run model.onnx --input random:7 --free-dimension batch=4`;

/** @typedef {import('../types.mjs').Tensor & { name: string }} NamedTensor */

/** Longer file names are truncated: file systems allow 255 bytes. */
const MAX_FILE_NAME = 200;

/** Device names on Windows, whatever follows the dot. */
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)/i;

/**
 * Returns file names for outputs: without separators and characters that file systems refuse, and all different.
 * @param {NamedTensor[]} outputs
 */
function fileNames(outputs) {
  const taken = new Set();
  return outputs.map((output) => {
    const base =
      output.name
        .replace(/[^\w.-]+/g, '_')
        .replace(/^\.+/, '_')
        .replace(DEVICE, '_$1')
        .slice(0, MAX_FILE_NAME) || 'output';
    let file = base;
    // File systems may ignore case.
    for (let i = 2; taken.has(file.toLowerCase()); i++) file = `${base}-${i}`;
    taken.add(file.toLowerCase());
    return `${file}.${hasNumbers(output) ? 'npy' : 'json'}`;
  });
}

/**
 * Creates a folder and those above it. In some versions of Node, `mkdir` with `recursive` loops forever if the parent
 * exists and creation still fails, as in /proc.
 * @param {string} directory
 * @returns {Promise<void>}
 */
async function makeFolder(directory) {
  try {
    await mkdir(directory);
  } catch (caught) {
    const error = /** @type {NodeJS.ErrnoException} */ (caught);
    if (error.code === 'EEXIST' && existsSync(directory)) return;
    const parent = path.dirname(directory);
    if (error.code !== 'ENOENT' || existsSync(parent)) {
      throw new Failure(`cannot create the folder ${printable(directory)}: ${error.message}`, { cause: error });
    }
    await makeFolder(parent);
    await mkdir(directory);
  }
}

/**
 * Writes every output and returns the paths.
 * @param {string} directory
 * @param {NamedTensor[]} outputs
 */
async function writeOutputs(directory, outputs) {
  await makeFolder(path.resolve(directory));
  const files = fileNames(outputs).map((file) => path.join(directory, file));
  for (const [i, output] of outputs.entries()) await write(files[i], hasNumbers(output) ? formatNpy(output) : `${JSON.stringify(output.data, undefined, 1)}\n`);
  return files;
}

/**
 * The tensors of a result: several of a sequence, none of an optional without a value.
 * @param {string} name of the output
 * @param {import('webnn-node/onnx').OnnxResult | import('webnn-node/onnx').OnnxResult[] | null} result
 * @returns {NamedTensor[]}
 */
function tensorsOf(name, result) {
  if (result === null) return [];
  return Array.isArray(result) ? result.map((item, at) => ({ name: `${name}[${at}]`, ...item })) : [{ name, ...result }];
}

/** Whether it is a tensor of numbers; others have a list of strings or objects. @param {NamedTensor} tensor */
const hasNumbers = ({ data }) => ArrayBuffer.isView(data);

/**
 * Runs the model once. Returns its outputs, and the time in milliseconds.
 * @param {string} file
 * @param {import('../inputs.mjs').Feeds} feeds
 * @param {{ device: 'cpu' | 'gpu', threads?: number, cache?: string | true }} loading
 */
async function runOnce(file, { tensors, freeDimensions }, { device, threads, cache }) {
  return withLoaded(file, { freeDimensions, device, threads, cache }, async ({ model }) => {
    await withProgress('building the graph', () => compile(model, shapesOf(tensors)));
    const feeds = feedsOf(tensors);
    const start = performance.now();
    const results = await withProgress('running', () => model.run(feeds));
    const milliseconds = performance.now() - start;
    const outputs = model.outputs.flatMap(({ name }) => tensorsOf(name, results[name]));
    return { outputs, milliseconds };
  });
}

/**
 * @param {import('../output.mjs').Output} output
 * @param {ReturnType<typeof classify> & { output: string }} classes
 */
function printClasses(output, { output: name, softmax, items }) {
  output.print(output.style('dim', `${printable(name)}: ${softmax ? 'probabilities by softmax of the scores' : 'probabilities from the model'}`));
  for (const [i, classes] of items.entries()) {
    if (items.length > 1) output.heading(`item ${i}`);
    output.table(
      ['label', '>probability', '>index'],
      classes.map(({ label, probability, index }) => [label, formatShare(probability), index]),
    );
  }
}

/**
 * @param {import('../output.mjs').Output} output
 * @param {(ReturnType<typeof describeTensor> & { name: string })[]} descriptions
 */
function printOutputs(output, descriptions) {
  const number = (/** @type {number | null} */ value) => (value === null ? '-' : formatNumber(value));
  output.table(
    ['output', 'data type', 'shape', '>min', '>max', '>mean', 'first values'],
    descriptions.map(({ name, dataType, shape, min, max, mean, first }) => [
      name,
      dataType,
      formatShape(shape),
      number(min),
      number(max),
      number(mean),
      first.map((value) => (typeof value === 'number' || typeof value === 'bigint' ? formatNumber(value) : JSON.stringify(value))).join(' '),
    ]),
  );
  for (const { name, nans } of descriptions) if (nans > 0) output.print(`${printable(name)} has ${nans} NaN`);
}

/** @type {import('../types.mjs').CommandDefinition['execute']} */
async function execute(output, [file], options, isGiven) {
  if (options.labels === undefined) refuseIdle(isGiven, ['top'], 'classes are printed with --labels');
  requireThreadsOnCpu(isGiven, options.device);
  const inspection = await readModel(file, options.freeDimension);
  // A model that cannot run needs no inputs: loading it says why.
  if (inspection.unsupported.length > 0) await withLoaded(file, { freeDimensions: options.freeDimension ?? {} }, async () => {});
  const labels = options.labels === undefined ? undefined : await readLabels(options.labels);
  const feeds = await readFeeds(inspection, options);
  const { outputs, milliseconds } = await runOnce(file, feeds, options);
  const files = options.outputDir === undefined ? undefined : await writeOutputs(options.outputDir, outputs);
  const descriptions = outputs.map((tensor, i) => ({ name: tensor.name, ...describeTensor(tensor), ...(files && { file: files[i] }) }));
  let classes;
  if (labels !== undefined) {
    const scores = scoresAmong(outputs.filter(hasNumbers), labels.length);
    classes = { output: scores.name, ...classify(scores, labels, options.top) };
  }
  output.document({ model: file, milliseconds, outputs: descriptions, ...(classes && { classes }) });

  if (classes !== undefined) printClasses(output, classes);
  for (const [i, name] of (files ?? []).entries()) {
    output.print(`${printable(name)}  ${outputs[i].dataType} ${formatShape(outputs[i].shape)}`);
  }
  if (classes === undefined && files === undefined) {
    printOutputs(output, descriptions);
    output.print(output.style('dim', `${formatDuration(milliseconds)} for one run, without warm-up`));
  }
}

/** @type {import('../types.mjs').CommandDefinition} */
export default {
  name: 'run',
  description: 'Runs a model once and prints, names or writes its outputs.',
  define: (command) => {
    command.argument('<model>', 'an ONNX file');
    for (const option of [...inputOptions(), freeDimensionOption(), ...processorOptions('the model'), cacheOption()]) command.addOption(option);
    command
      .option('--output-dir <DIR>', 'write each output to a .npy file in this folder')
      .option('--labels <FILE>', 'print the most likely classes by these names')
      .addOption(topOption('number of classes', 5));
  },
  execute,
  help: HELP,
};

// Says what is in a picture. `node examples/image-classification.mjs --help` for the usage.
import { access, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ml, MLGraphBuilder } from 'webnn-node';
import { readSafetensors } from './digits/safetensors.mjs';
import { CLASSES, decodePicture, INPUT, OUTPUT, squeezenet } from './lib/squeezenet.mjs';
import { FormatError } from './digits/tensor-data.mjs';
import { AMBER, colorDepth, GREEN, horizontalBar, paint, percent } from './digits/terminal.mjs';

const MODEL = fileURLToPath(new URL('../../shared/models/squeezenet1.0', import.meta.url));

const HELP = `Usage: image-classification.mjs PICTURE [--model DIR] [--labels] [--top K]

Prints the most likely contents of a picture, best first, as SqueezeNet 1.0 sees it.

  PICTURE       a JPEG, PNG, WebP, GIF, AVIF or TIFF file
  --model DIR   folder with weights.safetensors and labels.txt
                (default: ../shared/models/squeezenet1.0 beside this repository)
  --labels      print the labels only, one per line
  --top K       how many labels, 1 to ${CLASSES} (default: 5)
  --help        print this text
`;

const WIDTH = 80;

/** Something the user can put right; printed without a stack, exit code 2. */
class UsageError extends Error {
  name = 'UsageError';
}

/**
 * The checked arguments, or null if the user asked for help.
 * @param {string[]} args
 */
function parseArguments(args) {
  const { values, positionals } = parseArgs({
    args,
    options: {
      model: { type: 'string', default: MODEL },
      labels: { type: 'boolean', default: false },
      top: { type: 'string', default: '5' },
      help: { type: 'boolean', short: 'h', default: false },
    },
    allowPositionals: true,
  });
  if (values.help) return null;
  if (positionals.length !== 1) {
    throw new UsageError(`${positionals.length} pictures given, expected one; try --help`);
  }
  const top = Number(values.top);
  if (!Number.isInteger(top) || top < 1 || top > CLASSES) {
    throw new UsageError(`--top is "${values.top}", expected a whole number from 1 to ${CLASSES}`);
  }
  return { picture: positionals[0], model: values.model, labelsOnly: values.labels, top };
}

/**
 * Runs `read`, naming the file in the error when it does not exist or may not be read.
 * @template R
 * @param {string} what
 * @param {string} file
 * @param {(file: string) => Promise<R>} read
 */
async function readable(what, file, read) {
  try {
    await access(file);
    return await read(file);
  } catch (caught) {
    const cause = /** @type {NodeJS.ErrnoException} */ (caught);
    if (cause instanceof FormatError) throw cause;
    const reason = cause.code === 'ENOENT' ? 'there is no such file' : cause.message;
    throw new UsageError(`cannot read the ${what} ${file}: ${reason}`, { cause });
  }
}

/** @param {string} file */
async function readLabels(file) {
  const labels = (await readFile(file, 'utf8')).trimEnd().split(/\r?\n/);
  if (labels.length !== CLASSES) {
    throw new FormatError(`${file}: ${labels.length} labels, expected ${CLASSES}`);
  }
  return labels;
}

/**
 * Builds the network and runs it once: the probabilities of the classes.
 * @param {Float32Array} image
 * @param {Map<string, import('./digits/tensor-data.mjs').TensorData>} weights
 */
async function classify(image, weights) {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const probabilities = squeezenet(builder, builder.input('image', INPUT), weights);
  const graph = await builder.build({ probabilities });
  const input = await context.createTensor({ ...INPUT, writable: true });
  const output = await context.createTensor({ ...OUTPUT, readable: true });
  context.writeTensor(input, image);
  context.dispatch(graph, { image: input }, { probabilities: output });
  const result = new Float32Array(await context.readTensor(output));
  context.destroy();
  return result;
}

/**
 * One line per guess: label, probability, bar.
 * @param {{ label: string, probability: number }[]} guesses
 */
function report(guesses) {
  const depth = colorDepth(process.stdout);
  const labelWidth = Math.max(...guesses.map(({ label }) => label.length));
  const barWidth = Math.max(10, WIDTH - labelWidth - 2 * 2 - percent(0).length);
  return guesses.map(({ label, probability }, place) => {
    const text = paint(label.padEnd(labelWidth), depth, { bold: place === 0 });
    const bar = horizontalBar(probability, barWidth, depth, place === 0 ? GREEN : AMBER);
    return `${text}  ${percent(probability)}  ${bar}`.trimEnd();
  });
}

async function main() {
  const options = parseArguments(process.argv.slice(2));
  if (options === null) {
    process.stdout.write(HELP);
    return;
  }
  const image = await readable('picture', options.picture, decodePicture);
  const inModel = (/** @type {string} */ name) => path.join(options.model, name);
  const { tensors } = await readable('weights', inModel('weights.safetensors'), readSafetensors);
  const labels = await readable('labels', inModel('labels.txt'), readLabels);
  const probabilities = await classify(image, tensors);
  const guesses = Array.from(probabilities, (probability, i) => ({ probability, label: labels[i] }))
    .sort((a, b) => b.probability - a.probability)
    .slice(0, options.top);
  const lines = options.labelsOnly ? guesses.map(({ label }) => label) : report(guesses);
  console.log(lines.join('\n'));
}

try {
  await main();
} catch (caught) {
  const error = /** @type {NodeJS.ErrnoException} */ (caught);
  const usersToFix =
    error instanceof UsageError ||
    error instanceof FormatError ||
    error.code?.startsWith('ERR_PARSE_ARGS');
  if (!usersToFix) throw error;
  console.error(`image-classification: ${error.message}`);
  process.exitCode = 2;
}

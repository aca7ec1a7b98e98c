// Continues a text, character by character. `node examples/text-generation.mjs --help` for the usage.
import { parseArgs } from 'node:util';
import { Generator, randomNumbers } from './text-generation/generator.mjs';
import { colorDepth, GRAY, paint } from './lib/terminal.mjs';

const MODEL = new URL('text-generation/model.onnx', import.meta.url);

const HELP = `Usage: text-generation.mjs [PROMPT] [--lines N] [--temperature T] [--seed N]

Continues a text and prints each character as soon as it is known. The model is tiny: it knows the few hundred
sentences of examples/semantic-search/texts by heart, and mixes them.

  PROMPT            how the text begins, in ASCII (default: "The ")
  --lines N         how many lines, each from the prompt anew (default: 3)
  --temperature T   0 always takes the most likely character, higher is bolder (default: 0.8)
  --seed N          a whole number; the same one gives the same text (default: a random one)
  --stats           print how fast it was
  --help            print this text
`;

/** Something the user can put right; printed without a stack, exit code 2. */
class UsageError extends Error {
  name = 'UsageError';
}

/**
 * The number that an option holds.
 * @param {string} option
 * @param {string} text
 * @param {(value: number) => boolean} isValid
 * @param {string} expected says in the message which numbers are valid
 * @throws {UsageError}
 */
function numberOf(option, text, isValid, expected) {
  const value = text.trim() === '' ? NaN : Number(text);
  if (!isValid(value)) throw new UsageError(`--${option} is "${text}", expected ${expected}`);
  return value;
}

/**
 * The checked arguments, or null if the user asked for help.
 * @param {string[]} args
 */
function parseArguments(args) {
  const { values, positionals } = parseArgs({
    args,
    options: {
      lines: { type: 'string', default: '3' },
      temperature: { type: 'string', default: '0.8' },
      seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 32)) },
      stats: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
    allowPositionals: true,
  });
  if (values.help) return null;
  return {
    prompt: positionals.length === 0 ? 'The ' : positionals.join(' '),
    lines: numberOf('lines', values.lines, (n) => Number.isInteger(n) && n > 0, 'a positive whole number'),
    temperature: numberOf('temperature', values.temperature, (t) => t >= 0 && t <= 10, 'a number from 0 to 10'),
    seed: numberOf('seed', values.seed, (n) => Number.isInteger(n) && n >= 0 && n < 2 ** 32, 'a whole number from 0 to 4294967295'),
    stats: values.stats,
  };
}

/**
 * Streams one line.
 * @param {Generator} generator
 * @param {string} prompt
 * @param {{ temperature: number, random: () => number }} options
 * @returns {Promise<number>} how many characters were generated
 */
async function writeLine(generator, prompt, options) {
  process.stdout.write(paint(prompt, colorDepth(process.stdout), { bold: true }));
  let count = 0;
  for await (const character of generator.generate(prompt, { ...options, stop: '\n' })) {
    process.stdout.write(character);
    count += 1;
  }
  process.stdout.write('\n');
  return count;
}

async function main() {
  const options = parseArguments(process.argv.slice(2));
  if (options === null) {
    process.stdout.write(HELP);
    return;
  }
  const { prompt, lines, temperature, seed } = options;
  const generator = await Generator.load(MODEL);
  const random = randomNumbers(seed);
  const start = performance.now();
  let count = 0;
  try {
    for (let line = 0; line < lines; line++) count += await writeLine(generator, prompt, { temperature, random });
  } catch (error) {
    if (error instanceof RangeError) throw new UsageError(error.message);
    throw error;
  }
  const seconds = (performance.now() - start) / 1000;
  generator.destroy();
  if (options.stats) {
    const text = `${count} characters in ${seconds.toFixed(2)} s: ${Math.round(count / seconds)} per second (seed ${seed})`;
    console.error(paint(text, colorDepth(process.stderr), { color: GRAY }));
  }
}

try {
  await main();
} catch (caught) {
  const error = /** @type {NodeJS.ErrnoException} */ (caught);
  if (!(error instanceof UsageError) && !error.code?.startsWith('ERR_PARSE_ARGS')) throw error;
  console.error(`text-generation: ${error.message}`);
  process.exitCode = 2;
}

// Options that several commands share, and the parsers of their values. Parsers throw commander's InvalidArgumentError,
// which names the option.
import { InvalidArgumentError, Option } from 'commander';
import { UsageError } from './errors.mjs';

/** Maximum runs of a profile or a benchmark; also the limit of `profileGraph()`. */
const MAX_RUNS = 10_000;

/** The limit of `createContext()`. */
const MAX_THREADS = 1024;

/** Maximum tokens of a generated text; no model supports longer ones. */
const MAX_TEXT = 1_000_000;

/** Larger dimensions fit no tensor. */
const MAX_DIMENSION = 2 ** 31 - 1;

/**
 * Creates a parser of whole numbers.
 * @param {number} lowest
 * @param {number} highest
 */
function wholeNumber(lowest, highest) {
  return (/** @type {string} */ text) => {
    const value = Number(text);
    if (text.trim() === '' || !Number.isInteger(value) || value < lowest || value > highest) {
      throw new InvalidArgumentError(`Expected a whole number from ${lowest} to ${highest}.`);
    }
    return value;
  };
}

/**
 * Creates a parser of comma-separated numbers; `counts` lists the allowed counts.
 * @param {number[]} counts
 * @param {(value: number) => boolean} [accept]
 * @param {string} [what]
 */
function numbers(counts, accept = () => true, what = '') {
  return (/** @type {string} */ text) => {
    const values = text.split(',').map((part) => (part.trim() === '' ? NaN : Number(part)));
    if (!counts.includes(values.length) || !values.every((value) => Number.isFinite(value) && accept(value))) {
      throw new InvalidArgumentError(`Expected ${counts.join(' or ')} numbers${what} separated by commas.`);
    }
    return values;
  };
}

/**
 * Collects NAME=N; a name may be given once.
 * @param {string} text
 * @param {Record<string, number>} [collected]
 */
function freeDimension(text, collected = {}) {
  const at = text.lastIndexOf('=');
  if (at < 1) throw new InvalidArgumentError('Expected NAME=N, as in batch=1.');
  const name = text.slice(0, at);
  if (Object.hasOwn(collected, name)) throw new InvalidArgumentError(`"${name}" is given twice.`);
  return { ...collected, [name]: wholeNumber(1, MAX_DIMENSION)(text.slice(at + 1)) };
}

const collect = (/** @type {string} */ value, collected = /** @type {string[]} */ ([])) => [...collected, value];

/**
 * Parses a positive factor, also as a fraction: 0.5, 1/255.
 * @param {string} text
 */
function factor(text) {
  const parts = /^([^/]+)(?:\/([^/]+))?$/.exec(text);
  const value = parts === null ? NaN : Number(parts[1]) / Number(parts[2] ?? 1);
  if (!Number.isFinite(value) || value <= 0) throw new InvalidArgumentError('Expected a number above 0, as in 1/255.');
  return value;
}

/**
 * Parses HEIGHTxWIDTH, or one number for both.
 * @param {string} text
 */
function size(text) {
  const sides = text.split('x').map((side) => wholeNumber(1, 65535)(side));
  if (sides.length > 2) throw new InvalidArgumentError('Expected N or HEIGHTxWIDTH.');
  return sides.length === 1 ? [sides[0], sides[0]] : sides;
}

/** @param {string} text */
function integerRange(text) {
  const [lowest, highest] = numbers([2], Number.isSafeInteger, ' without a fraction')(text);
  if (lowest > highest) throw new InvalidArgumentError('Expected MIN,MAX with MIN not above MAX.');
  return [lowest, highest];
}

/**
 * Parses PROMPT,TOKENS, two lengths. With only one token, the cache would not be used.
 * @param {string} text
 */
function textLengths(text) {
  const lengths = text.split(',').map((part) => (part.trim() === '' ? NaN : Number(part)));
  const [prompt, tokens] = lengths;
  const isLength = (/** @type {number} */ length) => Number.isInteger(length) && length <= MAX_TEXT;
  if (lengths.length !== 2 || !lengths.every(isLength) || prompt < 1 || tokens < 2) {
    throw new InvalidArgumentError(`Expected PROMPT,TOKENS, as in 128,32: whole numbers up to ${MAX_TEXT}, the first from 1, the second from 2.`);
  }
  return lengths;
}

/** @param {string} text */
function positiveSeconds(text) {
  const value = Number(text);
  if (!(value > 0 && value <= 3600)) throw new InvalidArgumentError('Expected seconds, above 0 and at most 3600.');
  return value;
}

/**
 * Rejects options that would have no effect: the user expects one.
 * @param {import('./types.mjs').IsGiven} isGiven
 * @param {string[]} names in camel case
 * @param {string} why reason why none of them has an effect
 * @throws {UsageError} with the first one that was given
 */
export function refuseIdle(isGiven, names, why) {
  const idle = names.find(isGiven);
  if (idle === undefined) return;
  const flag = idle.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new UsageError(`--${flag} has no effect: ${why}`);
}

/**
 * @template T
 * @param {string} flags
 * @param {string} description
 * @param {(text: string, previous: T) => T} [parse]
 */
const option = (flags, description, parse) => {
  const result = new Option(flags, description);
  return parse === undefined ? result : result.argParser(parse);
};

/** An option of every command that reads a model. */
export const freeDimensionOption = () => option('--free-dimension <NAME=N>', 'size of a free dimension; repeatable', freeDimension);

/** Where packed weights are kept, of commands that run a model. */
export const cacheOption = () => option('--cache [DIR]', "map packed weights from this folder, by default the user's, and keep them there");

/** The folder itself, of commands that are about it. @param {string} what */
export const cacheFolderOption = (what) => option('--cache <DIR>', `${what} (default: the user's, see WEBNN_CACHE_DIR)`);

/** Where a model computes. @param {string} what computes there */
export const processorOptions = (what) => [
  option('--device <DEVICE>', `where ${what} computes`).choices(['cpu', 'gpu']).default('cpu'),
  option('--threads <N>', `compute on the CPU with this many threads, 1 to ${MAX_THREADS} (default: one per physical core)`, wholeNumber(1, MAX_THREADS)),
];

/**
 * @param {(name: string) => boolean} isGiven
 * @param {'cpu' | 'gpu'} device
 * @throws {UsageError} for a number of threads of a GPU
 */
export function requireThreadsOnCpu(isGiven, device) {
  if (device === 'gpu') refuseIdle(isGiven, ['threads'], 'the GPU computes');
}

export const runsOption = (/** @type {string} */ what) => option('--runs <N>', `${what}, 1 to ${MAX_RUNS}`, wholeNumber(1, MAX_RUNS));

export const warmupOption = () => option('--warmup <N>', `runs before the first measured one, 0 to ${MAX_RUNS}`, wholeNumber(0, MAX_RUNS)).default(3);

export const secondsOption = (/** @type {number} */ standard) =>
  option('--seconds <S>', `measure each engine for this long (default: ${standard})`, positiveSeconds);

export const generateOption = () =>
  option('--generate <PROMPT,TOKENS>', 'measure a language model: prompt length and number of tokens to generate', textLengths);

export const topOption = (/** @type {string} */ what, /** @type {number} */ standard) => option('--top <K>', what, wholeNumber(1, 1_000_000)).default(standard);

/** The options for model inputs, including pictures. */
export const inputOptions = () => [
  option('-i, --input <NAME=VALUE>', 'value of an input, see below; repeatable', collect),
  option('--random-range <MIN,MAX>', 'range of random integers, inclusive (default: 0,1)', integerRange),
  option('--mean <M>', 'pictures: value to subtract after scaling, 1 or 3 numbers (default: 0.5)', numbers([1, 3])),
  option(
    '--std <S>',
    'pictures: value to divide by after that, 1 or 3 numbers (default: 0.5)',
    numbers([1, 3], (value) => value > 0, ' above 0'),
  ),
  option('--scale <F>', 'pictures: factor for the values 0 to 255, before mean and std (default: 1/255)', factor),
  option('--layout <LAYOUT>', "pictures: order of the dimensions (default: from the input's shape)").choices(['nchw', 'nhwc']),
  option('--resize <N>', 'pictures: length of the shorter side before cropping (default: just large enough)', wholeNumber(1, 65535)),
  option('--crop <N|HxW>', "pictures: size of the center crop (default: the input's)", size),
  option('--stretch', 'pictures: resize to the crop size, ignoring proportions').conflicts('resize'),
];

/** Values of inputs, for the help texts. */
export const INPUT_HELP = `
Inputs (NAME= may be omitted if the model has one input):
  FILE.npy             a NumPy array
  FILE.npz             the only array of a NumPy archive
  FILE.npz:KEY         one of several arrays
  PICTURE              a JPEG, PNG, WebP, AVIF, GIF or TIFF file, decoded with
                       the npm package sharp
  random, random:SEED  random numbers, the same for the same seed (default: 0);
                       floats are from -1 to 1
  zeros, ones
  1,2,3                a list of numbers
If a file has such a name, write a path: ./random`;

/**
 * Returns the options of pictures, for `pictureTensor`.
 * @param {import('./types.mjs').PictureOptions} options
 */
export function pictureOptions({ mean, std, scale, layout, resize, crop, stretch }) {
  return { mean, std, scale, layout, resize, crop, stretch };
}

/**
 * Rejects input options that affect no input.
 * @param {import('./types.mjs').Options} options
 * @param {{ kind?: string, isFloat: boolean }[]} sources the kinds of the model's inputs, and whether their numbers can
 *   have a fraction
 * @throws {UsageError}
 */
export function checkInputOptions(options, sources) {
  const isGiven = (/** @type {string} */ name) => options[/** @type {keyof import('./types.mjs').Options} */ (name)] !== undefined;
  const kinds = sources.map(({ kind }) => kind);
  if (!kinds.includes('picture')) refuseIdle(isGiven, Object.keys(pictureOptions(options)), 'no input is a picture');
  if (!sources.some(({ kind, isFloat }) => kind === 'random' && !isFloat)) {
    refuseIdle(isGiven, ['randomRange'], 'no input is random integers');
  }
}

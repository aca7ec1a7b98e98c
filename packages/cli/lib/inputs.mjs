// From `--input NAME=VALUE` to the tensors that a model takes.
import { inputShapes } from 'webnn-node/onnx';
import { arrayFromNumbers, convert, elementCount, elementSize, isFloat, MAX_BYTES, isKnown, rangeOf } from 'webnn-node-text/elements';
import { Failure, UsageError } from './errors.mjs';
import { requireReadable } from './files.mjs';
import { formatShape, printable } from './format.mjs';
import { readNpy, readNpz } from './npy.mjs';
import { pictureTensor } from './pictures.mjs';
import { randomTensor } from 'webnn-node-text/random';

const RANDOM_VALUE = /^random(?::(\d+))?$/;
const NPZ = /^(.*\.npz)(?::(.+))?$/i;
const NUMBER = String.raw`[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|[-+]?inf(?:inity)?|nan`;
const LIST = new RegExp(String.raw`^\s*(?:${NUMBER})(?:\s*,\s*(?:${NUMBER}))*\s*$`, 'i');

const MAX_SEED = 2 ** 32 - 1;

/** Sources that fit any shape. */
const MADE = ['random', 'fill'];

/** Source of inputs without a value, where values do not matter. @type {Source} */
export const RANDOM = { kind: 'random', seed: 0 };

/**
 * The parsed value of an option `--input`.
 * @typedef {{ kind: 'random', seed: number } | { kind: 'fill', value: number } | { kind: 'list', texts: string[] }
 *   | { kind: 'npy', path: string } | { kind: 'npz', path: string, key?: string } | { kind: 'picture', path: string }} Source
 */

/**
 * @param {string} value
 * @returns {Source} the meaning of a VALUE; write ./random for a file with a name like `random`
 */
export function parseSource(value) {
  const random = RANDOM_VALUE.exec(value);
  if (random) {
    const seed = Number(random[1] ?? 0);
    if (seed > MAX_SEED) throw new UsageError(`--input ${value}: the seed is above ${MAX_SEED}`);
    return { kind: 'random', seed };
  }
  if (value === 'zeros') return { kind: 'fill', value: 0 };
  if (value === 'ones') return { kind: 'fill', value: 1 };
  if (LIST.test(value)) return { kind: 'list', texts: value.split(',').map((text) => text.trim()) };
  if (/\.npy$/i.test(value)) return { kind: 'npy', path: value };
  const npz = NPZ.exec(value);
  if (npz) return { kind: 'npz', path: npz[1], key: npz[2] };
  return { kind: 'picture', path: value };
}

/**
 * Assigns each value to an input.
 * @param {string[]} values of the option, `NAME=VALUE`, or `VALUE` if the model has one input
 * @param {readonly { name: string }[]} inputs of the model
 * @param {readonly { name: string }[]} [optional] inputs, which need a name
 * @returns {Map<string, Source>}
 * @throws {UsageError} if a name is unknown, missing or given twice
 */
export function assignSources(values, inputs, optional = []) {
  const sources = new Map();
  for (const value of values) {
    // Names may contain "=": the longest matching name wins.
    const named = [...inputs, ...optional].filter(({ name }) => value.startsWith(`${name}=`)).sort((a, b) => b.name.length - a.name.length)[0];
    const { name } = named ?? onlyInput(value, inputs);
    if (sources.has(name)) throw new UsageError(`--input ${name} is given twice`);
    const text = named === undefined ? value : value.slice(name.length + 1);
    if (text === '') throw new UsageError(`--input ${value}: there is nothing after "="`);
    sources.set(name, parseSource(text));
  }
  return sources;
}

/**
 * Returns the input for a value without a known name.
 * @param {string} value
 * @param {readonly { name: string }[]} inputs
 */
function onlyInput(value, inputs) {
  const names = inputs.map(({ name }) => printable(name)).join(', ');
  const assignment = /^([^=/\\]+)=/.exec(value);
  if (assignment) {
    throw new UsageError(`--input ${value}: the model has no input "${assignment[1]}"; its inputs: ${names}`);
  }
  if (inputs.length !== 1) {
    throw new UsageError(`--input ${value} names no input, and the model has ${inputs.length}: ${names}`);
  }
  return inputs[0];
}

/** The known shapes of a model's inputs. */
class Shapes {
  #inputs;
  #freeDimensions;
  /** @type {Record<string, readonly number[]>} */
  #shapes = {};

  /**
   * @param {readonly import('webnn-node/onnx').OnnxValueInfo[]} inputs of the model
   * @param {Record<string, number>} freeDimensions
   */
  constructor(inputs, freeDimensions) {
    this.#inputs = inputs;
    this.#freeDimensions = freeDimensions;
  }

  /** @param {Parameters<typeof inputShapes>[1]} [known] additional or overriding facts */
  #complete(known) {
    const facts = { freeDimensions: this.#freeDimensions, shapes: this.#shapes, strictDimensions: false, ...known };
    return inputShapes(this.#inputs, facts);
  }

  /**
   * Returns the shape of an input as far as it is known.
   * @param {import('webnn-node/onnx').OnnxValueInfo} input
   */
  of({ name }) {
    const shape = this.#complete().shapes[name];
    if (shape === null) {
      throw new Failure(`the model does not declare the shape of input ${printable(name)}: give a .npy or .npz file`);
    }
    return shape;
  }

  /**
   * Derives sizes from the shape of a value.
   * @param {import('webnn-node/onnx').OnnxValueInfo} input
   * @param {readonly number[]} shape
   * @param {string} source name of the value in messages
   */
  learn({ name }, shape, source) {
    const shapes = { ...this.#shapes, [name]: shape };
    try {
      this.#complete({ shapes });
    } catch (caught) {
      const cause = requireShapeError(caught);
      const message = cause.message.replace('freeDimensions sets', '--free-dimension sets');
      throw new Failure(`${source}: input ${printable(message)}`, { cause });
    }
    this.#shapes = shapes;
  }

  /**
   * Derives sizes from the number of elements of a list, and returns its shape. A single free dimension takes all
   * remaining elements; leading ones (batch) become 1.
   * @param {import('webnn-node/onnx').OnnxValueInfo} input
   * @param {number} count
   */
  learnList(input, count) {
    const free = this.of(input).filter((dimension) => typeof dimension === 'string');
    const batch = Object.fromEntries(free.slice(0, -1).map((name) => [name, 1]));
    try {
      const { shapes } = this.#complete({ freeDimensions: { ...this.#freeDimensions, ...batch }, elements: { [input.name]: count } });
      const shape = /** @type {number[]} */ (shapes[input.name]);
      this.#shapes = { ...this.#shapes, [input.name]: shape };
      return shape;
    } catch (caught) {
      const cause = requireShapeError(caught);
      throw new UsageError(`the list: input ${printable(cause.message)}`, { cause });
    }
  }

  /** All known sizes, for `loadModel`. */
  get freeDimensions() {
    return this.#complete().freeDimensions;
  }
}

/**
 * @param {unknown} caught
 * @throws the caught error, if it is not about a shape
 */
function requireShapeError(caught) {
  const error = /** @type {NodeJS.ErrnoException} */ (caught);
  if (error.code !== 'ERR_WEBNN_SHAPE') throw error;
  return error;
}

/**
 * Returns the symbolic names in the shapes of a model's inputs.
 * @param {readonly import('webnn-node/onnx').OnnxValueInfo[]} inputs
 */
export function symbolsOf(inputs) {
  return [...new Set(inputs.flatMap(({ shape }) => (shape ?? []).filter((dimension) => typeof dimension === 'string')))];
}

/**
 * Options that give sizes, to copy and change: a letter in place of a number can be the name of a dimension.
 * @param {readonly (string | number)[]} names of free dimensions
 */
export const sizesOf = (names) => names.map((name) => `--free-dimension ${printable(String(name))}=1`).join(' ');

/**
 * Returns the shape of an input in numbers; throws an error about missing sizes.
 * @param {import('webnn-node/onnx').OnnxValueInfo} input
 * @param {Shapes} shapes
 */
function staticShape(input, shapes) {
  const shape = shapes.of(input);
  const free = new Set(shape.filter((dimension) => typeof dimension !== 'number'));
  if (free.size > 0) {
    throw new UsageError(`input ${printable(input.name)} has free sizes, ${printable(formatShape(shape))}: give them, as in ${sizesOf([...free])}`);
  }
  const known = /** @type {number[]} */ (shape);
  const bytes = elementCount(known) * elementSize(input.dataType);
  if (bytes > MAX_BYTES) {
    throw new Failure(`input ${printable(input.name)}: ${input.dataType} ${formatShape(shape)} has ${bytes} bytes, expected at most ${MAX_BYTES}`);
  }
  return known;
}

/**
 * @typedef {object} Feeds
 * @property {import('./types.mjs').Tensors} tensors by input name
 * @property {Record<string, number>} freeDimensions given sizes and sizes learned from files
 */

/**
 * Reads or creates the tensors of all inputs.
 * @param {readonly import('webnn-node/onnx').OnnxValueInfo[]} inputs of the model
 * @param {Map<string, Source>} sources by input name
 * @param {{ freeDimensions: Record<string, number>, fallback?: Source, randomRange?: [number, number], picture: import('./types.mjs').PictureOptions }}
 *   options `fallback`: the source of inputs that have none; `picture`: see `pictureTensor`
 * @returns {Promise<Feeds>}
 * @throws {UsageError | Failure}
 */
export async function readInputs(inputs, sources, { freeDimensions, fallback, randomRange, picture }) {
  const missing = inputs.filter(({ name }) => !sources.has(name));
  if (missing.length > 0 && fallback === undefined) {
    const list = missing.map(({ name, dataType, shape }) => `${name} (${dataType} ${formatShape(shape)})`).join(', ');
    const value = `--input ${printable(missing[0].name)}`;
    const sizes = sizesOf(symbolsOf(missing).filter((name) => !Object.hasOwn(freeDimensions, name)));
    throw new UsageError(`no value for ${printable(list)}; give ${value}=FILE, or ${value}=random${sizes === '' ? '' : ` ${sizes}`}`);
  }
  const unreadable = inputs.find(({ dataType }) => !isKnown(dataType));
  if (unreadable !== undefined) {
    throw new Failure(`input ${printable(unreadable.name)} has data type ${unreadable.dataType}, which cannot be given on the command line`);
  }
  const shapes = new Shapes(inputs, freeDimensions);
  /** @type {import('./types.mjs').Tensors} */
  const tensors = {};
  // Files come first: their shapes determine free dimensions of the generated inputs.
  const sourceOf = (/** @type {import('webnn-node/onnx').OnnxValueInfo} */ { name }) => /** @type {Source} */ (sources.get(name) ?? fallback);
  const isMade = (/** @type {import('webnn-node/onnx').OnnxValueInfo} */ input) => MADE.includes(sourceOf(input).kind);
  for (const input of [...inputs].sort((a, b) => Number(isMade(a)) - Number(isMade(b)))) {
    tensors[input.name] = await tensorOf(input, sourceOf(input), shapes, { randomRange, picture });
  }
  return { tensors, freeDimensions: shapes.freeDimensions };
}

/**
 * @param {import('webnn-node/onnx').OnnxValueInfo} input
 * @param {Source} source
 * @param {Shapes} shapes
 * @param {{ randomRange?: [number, number], picture: import('./types.mjs').PictureOptions }} options
 * @returns {Promise<import('./types.mjs').Tensor>}
 */
async function tensorOf(input, source, shapes, { randomRange, picture }) {
  switch (source.kind) {
    case 'random':
      checkRange(input, randomRange);
      return randomTensor(input.dataType, staticShape(input, shapes), source.seed, isFloat(input.dataType) ? undefined : randomRange);
    case 'fill': {
      const shape = staticShape(input, shapes);
      const numbers = new Float64Array(elementCount(shape)).fill(source.value);
      return { dataType: input.dataType, shape, data: arrayFromNumbers(input.dataType, numbers) };
    }
    case 'list':
      return listTensor(input, source.texts, shapes);
    case 'picture': {
      await requireReadable(source.path, `input ${printable(input.name)}`);
      const wanted = { ...input, shape: shapes.of(input) };
      const tensor = await pictureTensor(source.path, wanted, picture);
      shapes.learn(input, tensor.shape, printable(source.path));
      return tensor;
    }
    default: {
      await requireReadable(source.path, `input ${printable(input.name)}`);
      const read = source.kind === 'npy' ? await readNpy(source.path) : await readNpz(source.path, source.key);
      shapes.learn(input, read.shape, printable(source.path));
      return converted(input, read, printable(source.path));
    }
  }
}

/**
 * Rejects a random range that the input's data type cannot hold.
 * @param {import('webnn-node/onnx').OnnxValueInfo} input
 * @param {[number, number] | undefined} range
 */
function checkRange(input, range) {
  if (range === undefined || isFloat(input.dataType)) return;
  const [lowest, highest] = rangeOf(input.dataType);
  if (range[0] < lowest || range[1] > highest) {
    throw new UsageError(`--random-range ${range.join(',')}: input ${printable(input.name)} is ${input.dataType}, ${lowest} to ${highest}`);
  }
}

/**
 * @param {import('webnn-node/onnx').OnnxValueInfo} input
 * @param {import('./types.mjs').Tensor} tensor
 * @param {string} source
 */
function converted(input, tensor, source) {
  try {
    return convert(tensor, input.dataType);
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new Failure(`input ${printable(input.name)}: ${source}: ${cause.message}`, { cause });
  }
}

/**
 * Parses a number of a list; if a float would lose digits, to a bigint.
 * @param {string} text
 * @param {string} dataType
 */
function parseNumber(text, dataType) {
  if (!isFloat(dataType) && /^[-+]?\d+$/.test(text)) return BigInt(text.replace(/^\+/, ''));
  return Number(text.replace(/inf(inity)?$/i, 'Infinity'));
}

/**
 * @param {import('webnn-node/onnx').OnnxValueInfo} input
 * @param {string[]} texts
 * @param {Shapes} shapes
 */
function listTensor(input, texts, shapes) {
  const integers = !isFloat(input.dataType);
  const fraction = texts.find((text) => integers && !/^[-+]?\d+$/.test(text));
  if (fraction !== undefined) {
    throw new UsageError(`input ${printable(input.name)}: ${fraction} is not an integer, but the input is ${input.dataType}`);
  }
  const shape = shapes.learnList(input, texts.length);
  const numbers = texts.map((text) => parseNumber(text, input.dataType));
  const [lowest, highest] = integers ? rangeOf(input.dataType) : [-Infinity, Infinity];
  const outside = numbers.find((number) => number < lowest || number > highest);
  if (outside !== undefined) {
    throw new UsageError(`input ${printable(input.name)}: ${outside} is not in the range of ${input.dataType}, ${lowest} to ${highest}`);
  }
  return { dataType: input.dataType, shape, data: arrayFromNumbers(input.dataType, numbers) };
}

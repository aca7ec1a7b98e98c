// Packs the weights of a model whose sizes may be free.
import { Failure } from './errors.mjs';
import { sizesOf, symbolsOf } from './inputs.mjs';

/**
 * Sizes of batches, and of other dimensions, all of which are tried: with one row, products could take a path that packs nothing; images have
 * to be larger than filters, and convolutions of large ones use other forms of their weights.
 */
const SIZES = [
  [2, 2],
  [1, 14],
  [1, 64],
  [1, 256],
];

/** What language models call the lengths of the cache and of all tokens. */
const TOTAL = /^total_sequence_length$/;
const [PAST, NEW] = ['past_sequence_length', 'sequence_length'];

/**
 * Sizes by the names of free dimensions. Those that are sums of others, by their names, are.
 * @param {readonly string[]} names
 * @param {ReadonlySet<string>} batches names of first dimensions
 * @param {number[]} sizes of batches and others
 */
function chooseSizes(names, batches, [batch, size]) {
  const plain = (/** @type {string} */ name) => (/^\d+$/.test(name) ? Number(name) : batches.has(name) ? batch : size);
  const sizeOf = (/** @type {string} */ name) =>
    (TOTAL.test(name) && names.includes(PAST) ? [PAST, NEW] : name.split('+')).reduce((sum, part) => sum + plain(part.trim()), 0);
  return Object.fromEntries(names.map((name) => [name, sizeOf(name)]));
}

/**
 * Compiles a model, which packs its weights, without running it.
 * @param {import('webnn-node/onnx').OnnxModel} model
 * @param {Record<string, number>} freeDimensions with which it was loaded
 * @returns {Promise<readonly import('webnn-node/onnx').OnnxUnsupportedNode[]>} where it is cut
 * @throws {Failure} if none of the sizes fit
 */
export async function packForAll(model, freeDimensions) {
  const { inputs } = model;
  const names = symbolsOf(inputs).filter((name) => !Object.hasOwn(freeDimensions, name));
  const unranked = inputs.find(({ shape }) => shape === null);
  if (unranked !== undefined) throw new Failure(`input ${unranked.name} has any number of dimensions: only a run knows what to pack`);
  if (names.length === 0) return (await model.describe()).cuts;
  const firsts = inputs.flatMap(({ shape }) => (typeof shape?.[0] === 'string' && shape.length > 1 ? shape[0] : []));
  const free = model.inputs.filter(({ shape }) => shape?.some((dimension) => typeof dimension === 'string'));
  /** @type {PromiseSettledResult<import('webnn-node/onnx').OnnxDescription>[]} */
  const tried = [];
  for (const pair of SIZES) {
    const sizes = { ...chooseSizes(names, new Set(firsts), pair), ...freeDimensions };
    const shapes = free.map(({ name, shape }) => [name, (shape ?? []).map((dimension) => (typeof dimension === 'string' ? sizes[dimension] : dimension))]);
    tried.push(...(await Promise.allSettled([model.describe(Object.fromEntries(shapes))])));
  }
  const described = tried.find((one) => one.status === 'fulfilled');
  if (described !== undefined) return described.value.cuts;
  const [{ reason: cause }] = /** @type {PromiseRejectedResult[]} */ (tried);
  throw new Failure(`the model takes none of the sizes that were tried: give its own, as in ${sizesOf(names)}\n${cause.message}`, { cause });
}

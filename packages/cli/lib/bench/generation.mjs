// `bench --generate`: how fast a language model reads a prompt and generates tokens.
import { describeDecoder, emptyCache, KEEP_LAST, stepInputs } from 'webnn-node-text/decoder';
import { formatBytes, formatDuration, formatRate } from '../format.mjs';
import { randomTensor } from 'webnn-node-text/random';
import { summarizeTimes } from '../statistics.mjs';
import { loadAndMeasure } from './compare.mjs';

/** @typedef {Awaited<ReturnType<typeof measureGeneration>>} Measured */

/** Every text starts with the same tokens, in each engine and run. */
const SEED = 0;

/** One text yields a time for each of its tokens: fewer runs suffice than for other models. */
const MIN_RUNS = 2;

/**
 * Continuations of a prompt as what is measured.
 * @param {import('./types.mjs').GenerateRequest} request
 * @returns {import('./measure.mjs').Subject<import('./types.mjs').Generation>}
 */
const generation = (request) => ({
  async take(engine, count) {
    const texts = [];
    while (texts.length < count) texts.push(await engine.request('generate', request));
    return texts;
  },
  msOf: ({ firstMs, tokenMs }) => tokenMs.reduce((sum, ms) => sum + ms, firstMs),
  minRuns: MIN_RUNS,
});

/**
 * Summarizes the times of an engine's texts. Rates are computed from medians, in tokens per second.
 * @param {import('./types.mjs').Generation[]} texts
 * @param {number} prompt length of the prompt
 */
function summarize(texts, prompt) {
  const samples = texts.flatMap(({ tokenMs }) => tokenMs);
  const first = summarizeTimes(texts.map(({ firstMs }) => firstMs));
  const token = summarizeTimes(samples);
  const rates = { promptRate: (1000 * prompt) / first.median, tokenRate: 1000 / token.median };
  // The histogram draws `samples`, with their `median`.
  return { runs: texts.length, ...rates, first, token, median: token.median, samples };
}

/**
 * Counts the equal ids of two texts, and finds the first position where they differ.
 * @param {number[]} own
 * @param {number[]} other
 */
function compareIds(own, other) {
  const differs = own.map((id, i) => id !== other[i]);
  const at = differs.indexOf(true);
  return { count: own.length, equal: differs.filter((isOther) => !isOther).length, firstDifference: at === -1 ? null : at };
}

/**
 * Creates the prompt: random tokens, the same for every engine.
 * @param {import('webnn-node/onnx').OnnxInspection} model
 * @param {[prompt: number, tokens: number]} lengths of the prompt and of the generated text
 * @returns {import('./types.mjs').GenerateRequest}
 * @throws {import('webnn-node-text/decoder').DecoderError} if the model is not a language model with a cache
 */
export function generateRequest(model, [length, tokens]) {
  const decoder = describeDecoder(model);
  const { data } = randomTensor('int64', [length], SEED, [0, decoder.vocabulary - 1]);
  return { decoder, prompt: Array.from(data, Number), tokens };
}

/**
 * Loads engines and lets them generate in turns.
 * @param {import('./process.mjs').EngineProcess[]} engines
 * @param {string} folder
 * @param {import('./types.mjs').GenerateRequest} request
 * @param {Omit<import('./compare.mjs').Plan, 'feeds'>} plan
 */
export async function measureGeneration(engines, folder, request, plan) {
  const { decoder, prompt } = request;
  // Engines that compile for given input sizes do so for the first step.
  const feeds = { tensors: { ...stepInputs(decoder, prompt, 0), ...emptyCache(decoder) }, freeDimensions: {} };
  const { measured, othersShare } = await loadAndMeasure(engines, folder, generation(request), { ...plan, feeds, keepLast: KEEP_LAST });
  const results = measured.map(({ facts, costs, samples }) => ({ ...facts, ...summarize(samples, prompt.length), ...costs, ids: samples[0].ids }));
  const [own, other] = results;
  if (other === undefined) return { results, othersShare };
  const ratio = { prompt: own.first.median / other.first.median, token: own.token.median / other.token.median };
  return { results, othersShare, ratio, agreement: compareIds(own.ids, other.ids) };
}

/**
 * @param {import('../output.mjs').Output} output
 * @param {Measured['results']} results
 */
export function printGenerationTable(output, results) {
  output.table(
    ['engine', 'device', '>prompt tokens/s', '>tokens/s', '>first token', '>a token', '>p95', '>texts', '>load', '>memory', '>peak'],
    results.map((engine) => [
      `${engine.name} ${engine.version}`,
      `${engine.device.toUpperCase()} (${engine.processor})`,
      formatRate(engine.promptRate),
      formatRate(engine.tokenRate),
      formatDuration(engine.first.median),
      formatDuration(engine.token.median),
      formatDuration(engine.token.p95),
      engine.runs,
      formatDuration(engine.loadMs),
      formatBytes(engine.residentAfterLoad),
      formatBytes(engine.residentPeak),
    ]),
  );
}

/**
 * @param {import('../output.mjs').Output} output
 * @param {NonNullable<Measured['agreement']>} agreement
 */
export function printEqualIds(output, { count, equal, firstDifference }) {
  const where = firstDifference === null ? '' : `; the first difference is at ${firstDifference + 1}`;
  const text = `${equal} of ${count} tokens are the same${where}`;
  output.print(output.style(equal === count ? 'green' : 'red', text));
}

// Which token comes next: the most likely one, or one at random.
import { mostLikely } from 'webnn-node-text/decoder';

/**
 * @typedef {object} Sampling
 * @property {number} temperature 0 always takes the most likely token, higher is bolder
 * @property {number} topK only this many of the most likely tokens count; 0 is all
 * @property {number} topP only the most likely tokens count that have this probability together
 * @property {number} [minP] only tokens count that are at least so likely, as a part of the most likely one; 0 is all
 */

/** @type {Sampling} */
export const GREEDY = { temperature: 0, topK: 0, topP: 1 };

/** What a generation_config.json means that samples and does not say how. */
const STANDARD = { temperature: 1, topK: 50, topP: 1 };

/**
 * What of a generation_config.json is about the choice of tokens.
 * @typedef {{ do_sample?: boolean, temperature?: number, top_k?: number, top_p?: number, min_p?: number }} SamplingConfig
 */

/**
 * How tokens are chosen: as the user says, or else as the model's own configuration does.
 * @param {SamplingConfig} config
 * @param {Partial<Sampling>} [given]
 * @returns {Sampling}
 */
export function samplingOf(config, { temperature, topK, topP, minP } = {}) {
  if ([temperature, topK, topP, minP].every((value) => value === undefined) && config.do_sample !== true) return GREEDY;
  const least = minP ?? config.min_p ?? 0;
  return {
    temperature: temperature ?? config.temperature ?? STANDARD.temperature,
    topK: topK ?? config.top_k ?? STANDARD.topK,
    topP: topP ?? config.top_p ?? STANDARD.topP,
    ...(least > 0 && { minP: least }),
  };
}

const sumOf = (/** @type {Float64Array} */ weights) => weights.reduce((sum, weight) => sum + weight, 0);

/** Below this part of the largest weight, all are looked at. */
const [PART, LEAST] = [1 / 64, 1e-9];

/**
 * The smallest weight that counts.
 * @param {Float64Array} weights the largest is 1
 * @param {Sampling} sampling
 */
function smallestWeight(weights, { topK, topP }) {
  const limit = topK === 0 ? weights.length : Math.min(topK, weights.length);
  if (limit === weights.length && topP >= 1) return 0;
  const isAll = limit === weights.length;
  const wanted = isAll ? topP * sumOf(weights) : Infinity;
  // Few of many thousand weights count: only the large ones are sorted.
  let [floor, best] = [1, weights];
  do {
    floor = floor * PART < LEAST ? 0 : floor * PART;
    best = weights.filter((weight) => weight >= floor);
  } while (floor > 0 && best.length < limit && (!isAll || sumOf(best) < wanted));
  best = best.sort().reverse().subarray(0, limit);
  const enough = isAll ? wanted : topP * sumOf(best);
  let sum = 0;
  return best.find((weight) => (sum += weight) >= enough) ?? best[best.length - 1];
}

/**
 * Chooses a token: the most likely one at temperature 0, else one at random with its probability
 * softmax(logits / temperature) among those that count.
 * @param {ArrayLike<number>} logits
 * @param {Sampling} sampling
 * @param {() => number} random gives numbers from 0 to 1
 */
export function chooseToken(logits, sampling, random) {
  const best = mostLikely(logits);
  if (sampling.temperature === 0) return best;
  const weights = new Float64Array(logits.length);
  for (let i = 0; i < weights.length; i++) weights[i] = Math.exp((logits[i] - logits[best]) / sampling.temperature);
  const smallest = Math.max(smallestWeight(weights, sampling), sampling.minP ?? 0);
  const counting = weights.map((weight) => (weight < smallest ? 0 : weight));
  let rest = random() * sumOf(counting);
  const chosen = counting.findIndex((weight) => (rest -= weight) < 0);
  return chosen === -1 ? best : chosen;
}

/**
 * What a caller changes in the scores.
 * @typedef {object} Changes
 * @property {ReadonlyMap<number, number>} bias of tokens, added to their scores
 * @property {number} presence taken from the scores of tokens that the text has already
 * @property {number} frequency taken from them as often as the text has them
 * @property {number} [repetition] what the scores of tokens that prompt or text have are divided by, those below 0 multiplied; 1 for none
 */

/** @type {Changes} */
export const UNCHANGED = { bias: new Map(), presence: 0, frequency: 0, repetition: 1 };

/**
 * The scores as a caller wants them.
 * @param {ArrayLike<number>} logits
 * @param {Changes} changes
 * @param {ReadonlyMap<number, number>} counts how often the text has each token
 * @param {object} [more]
 * @param {ReadonlySet<number>} [more.seen] tokens of prompt and text
 * @param {Iterable<number>} [more.forbidden] tokens that may not come, whatever their scores are
 * @returns {ArrayLike<number>}
 */
export function changedLogits(logits, { bias, presence, frequency, repetition = 1 }, counts, { seen = new Set(), forbidden = [] } = {}) {
  const penalizes = counts.size > 0 && (presence !== 0 || frequency !== 0);
  const repeats = repetition !== 1 && seen.size > 0;
  const none = [...forbidden];
  if (bias.size === 0 && !penalizes && !repeats && none.length === 0) return logits;
  const changed = Float64Array.from(logits);
  // In the order of vLLM; transformers, too, adds its biases first.
  for (const [id, value] of bias) changed[id] += value;
  if (repeats) for (const id of seen) changed[id] = changed[id] < 0 ? changed[id] * repetition : changed[id] / repetition;
  if (penalizes) for (const [id, count] of counts) changed[id] -= presence + count * frequency;
  for (const id of none) changed[id] = -Infinity;
  return changed;
}

/**
 * Logarithms of probabilities: of a token, and of the most likely ones.
 * @param {ArrayLike<number>} logits
 * @param {number} chosen
 * @param {number} count of the most likely ones
 * @returns {{ id: number, logprob: number, top: { id: number, logprob: number }[] }}
 */
export function logprobsOf(logits, chosen, count) {
  const largest = logits[mostLikely(logits)];
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - largest);
  const of = (/** @type {number} */ id) => ({ id, logprob: logits[id] - largest - Math.log(sum) });
  /** @type {number[]} */
  const top = [];
  for (let id = 0; count > 0 && id < logits.length; id++) {
    if (top.length === count && !(logits[id] > logits[top[count - 1]])) continue;
    const place = top.findIndex((other) => logits[id] > logits[other]);
    top.splice(place === -1 ? top.length : place, 0, id);
    top.length = Math.min(top.length, count);
  }
  return { ...of(chosen), top: top.map(of) };
}

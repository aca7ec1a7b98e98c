// Which token comes next: the most likely one, or one at random.
import { mostLikely } from 'webnn-node-cli/lib/decoder.mjs';

/**
 * @typedef {object} Sampling
 * @property {number} temperature 0 always takes the most likely token, higher is bolder
 * @property {number} topK only this many of the most likely tokens count; 0 is all
 * @property {number} topP only the most likely tokens count that have this probability together
 */

/** @type {Sampling} */
export const GREEDY = { temperature: 0, topK: 0, topP: 1 };

/** What a generation_config.json means that samples and does not say how. */
const STANDARD = { temperature: 1, topK: 50, topP: 1 };

/**
 * What of a generation_config.json is about the choice of tokens.
 * @typedef {{ do_sample?: boolean, temperature?: number, top_k?: number, top_p?: number }} SamplingConfig
 */

/**
 * How tokens are chosen: as the user says, or else as the model's own configuration does.
 * @param {SamplingConfig} config
 * @param {Partial<Sampling>} [given]
 * @returns {Sampling}
 */
export function samplingOf(config, { temperature, topK, topP } = {}) {
  if ([temperature, topK, topP].every((value) => value === undefined) && config.do_sample !== true) return GREEDY;
  return {
    temperature: temperature ?? config.temperature ?? STANDARD.temperature,
    topK: topK ?? config.top_k ?? STANDARD.topK,
    topP: topP ?? config.top_p ?? STANDARD.topP,
  };
}

/**
 * The smallest weight that counts.
 * @param {Float64Array} weights
 * @param {Sampling} sampling
 */
function smallestWeight(weights, { topK, topP }) {
  const limit = topK === 0 ? weights.length : Math.min(topK, weights.length);
  if (limit === weights.length && topP >= 1) return 0;
  const best = weights.slice().sort().reverse().subarray(0, limit);
  const enough = topP * best.reduce((sum, weight) => sum + weight, 0);
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
  const weights = Float64Array.from(logits, (value) => Math.exp((value - logits[best]) / sampling.temperature));
  const smallest = smallestWeight(weights, sampling);
  const counting = weights.map((weight) => (weight < smallest ? 0 : weight));
  let rest = random() * counting.reduce((sum, weight) => sum + weight, 0);
  const chosen = counting.findIndex((weight) => (rest -= weight) < 0);
  return chosen === -1 ? best : chosen;
}

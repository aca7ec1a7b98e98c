// What was measured, in the form in which people compare it.

import { median } from 'd3-array';
import { isDirty } from 'webnn-node-cli/lib/statistics.mjs';
import { TYPES } from './catalog.mjs';
import { LLAMA, OURS, REFERENCES } from './engines.mjs';

/**
 * @typedef {object} Run everything that one run of the benchmark has measured
 * @property {string} date
 * @property {ReturnType<typeof import('../machine.mjs').describeMachine>} machine
 * @property {string[]} engines
 * @property {Record<string, string>} versions by engine
 * @property {number} tokens that were asked for
 * @property {number} rounds
 * @property {Record<string, number>} bytesPerToken bytes of weights that are read for one token, by type and by the names of GGUF
 * @property {{ threads: number, gbps: number }[] | null} reading how fast memory can be read
 * @property {import('./measure.mjs').Measurement[]} measurements
 */

/** So many first tokens must be the same where engines round alike: a near tie decides later ones at times. */
export const COMPARED = 8;

/**
 * How many tokens two texts have in common at their beginning.
 *
 * @param {number[]} a
 * @param {number[]} b
 */
export function commonTokens(a, b) {
  const length = Math.min(a.length, b.length);
  const different = a.slice(0, length).findIndex((id, i) => id !== b[i]);
  return different < 0 ? length : different;
}

/**
 * Samples of an engine in a few numbers, medians of the clean ones, or of all where none is clean.
 *
 * @param {import('./measure.mjs').Sample[]} samples at least one
 */
export function summarize(samples) {
  const clean = samples.filter((sample) => !isDirty(sample));
  const considered = clean.length > 0 ? clean : samples;
  const middle = (/** @type {(sample: import('./measure.mjs').Sample) => number | undefined} */ of) =>
    median(considered.flatMap((sample) => of(sample) ?? []));
  const tokenMs = middle((sample) => median(sample.tokenMs));
  return {
    perSecond: tokenMs === undefined ? null : 1000 / tokenMs,
    firstMs: /** @type {number} */ (middle(({ firstMs }) => firstMs)),
    outsideMs: middle(({ outsideMs }) => median(outsideMs ?? [])) ?? null,
    peakBytes: Math.max(...samples.map(({ peakBytes }) => peakBytes)),
    ids: samples[0].ids,
    clean: clean.length,
    total: samples.length,
  };
}

/**
 * Bytes of weights that an engine reads for one token.
 *
 * @param {Record<string, number>} bytesPerToken
 * @param {import('./catalog.mjs').TypeName} type
 * @param {string} engine
 */
const weightsOf = (bytesPerToken, type, engine) => bytesPerToken[(engine === LLAMA && TYPES[type].gguf) || type];

/**
 * Whether the numbers that the weights stand for are those of the other engines: GGUF is quantized otherwise.
 *
 * @param {string} engine
 * @param {import('./catalog.mjs').TypeName} type
 */
const hasSameWeights = (engine, type) => engine !== LLAMA || TYPES[type].gguf === 'F16';

/**
 * How much of the read bandwidth a token uses.
 *
 * @param {number} bytes per token
 * @param {number | null} perSecond tokens
 * @param {number | undefined} gbps
 */
export const shareOfReading = (bytes, perSecond, gbps) => (perSecond === null || gbps === undefined ? null : (bytes * perSecond) / (gbps * 1e9));

/**
 * @typedef {object} Row of an engine on one prompt
 * @property {import('./catalog.mjs').TypeName} type
 * @property {number} threads
 * @property {number} prompt
 * @property {string} engine
 * @property {import('./measure.mjs').Result['status']} status
 * @property {ReturnType<typeof summarize>} [summary] absent where nothing was generated
 * @property {number} weights bytes
 * @property {number | null} share of reading
 * @property {number} [firstTextMs]
 * @property {{ same: number, of: number } | null} agreement tokens that are those of the reference; null of the
 *   reference itself, and of other weights
 */

/**
 * The rows of one measurement.
 *
 * @param {import('./measure.mjs').Measurement} measurement
 * @param {Pick<Run, 'bytesPerToken' | 'reading'>} run
 * @returns {Row[]} by prompt
 */
export function rowsOf({ type, threads, prompts, results }, { bytesPerToken, reading }) {
  const gbps = reading?.find((one) => one.threads === threads)?.gbps;
  return prompts.flatMap((prompt) => {
    const summaries = new Map(results.flatMap(({ engine, texts }) => {
      const text = texts.find((one) => one.prompt === prompt);
      return text === undefined ? [] : [[engine, summarize(text.samples)]];
    }));
    const reference = REFERENCES.find((engine) => summaries.has(engine));
    return results.map(({ engine, status, firstTextMs }) => {
      const summary = summaries.get(engine);
      const weights = weightsOf(bytesPerToken, type, engine);
      const share = summary === undefined ? null : shareOfReading(weights, summary.perSecond, gbps);
      const others = reference === undefined || reference === engine || !hasSameWeights(engine, type) ? undefined : summaries.get(reference)?.ids;
      const agreement = summary === undefined || others === undefined ? null : agreementOf(summary.ids, others);
      return { type, threads, prompt, engine, status, summary, weights, share, firstTextMs, agreement };
    });
  });
}

/**
 * @param {number[]} ids
 * @param {number[]} others
 */
const agreementOf = (ids, others) => ({ same: commonTokens(ids, others), of: Math.min(ids.length, others.length) });

/**
 * What this package did not do rightly: types that it cannot run, and other first tokens where engines round alike.
 *
 * @param {Row[]} rows
 * @returns {string[]}
 */
export function mistakesOf(rows) {
  return rows.flatMap(({ engine, type, threads, prompt, status, agreement }) => {
    if (!engine.includes(OURS)) return [];
    const where = `${engine}, ${type}, ${threads} threads, prompt of ${prompt}`;
    if (status !== 'ok') return [`${where}: ${status}`];
    if (!TYPES[type].exact || agreement === null || agreement.same >= Math.min(COMPARED, agreement.of)) return [];
    return [`${where}: only the first ${agreement.same} tokens are those of the reference`];
  });
}

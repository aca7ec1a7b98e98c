// Measurements as rows to compare.

import { median } from 'd3-array';
import { isDirty } from '../../packages/cli/lib/statistics.mjs';
import { TYPES } from './catalog.mjs';
import { LLAMA, OURS, REFERENCES } from './engines.mjs';

/**
 * @typedef {object} Run all measurements of one run of the benchmark
 * @property {string} date
 * @property {ReturnType<typeof import('../machine.mjs').describeMachine>} machine
 * @property {string[]} engines
 * @property {Record<string, string>} versions by engine
 * @property {number} tokens requested
 * @property {number} rounds
 * @property {Record<string, number>} bytesPerToken bytes of weights read per token, by type and by GGUF name
 * @property {{ threads: number, gbps: number }[] | null} reading read bandwidth of memory
 * @property {import('./measure.mjs').Measurement[]} measurements
 */

/** Number of first tokens that must agree if engines round alike; later ones can depend on a near tie. */
export const COMPARED = 8;

/**
 * Counts the tokens that two texts have in common at the beginning.
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
 * Summarizes the samples of an engine by medians of the clean ones, or of all if none is clean.
 *
 * @param {import('./measure.mjs').Sample[]} samples at least one
 */
export function summarize(samples) {
  const clean = samples.filter((sample) => !isDirty(sample));
  const considered = clean.length > 0 ? clean : samples;
  const middle = (/** @type {(sample: import('./measure.mjs').Sample) => number | undefined} */ of) => median(considered.flatMap((sample) => of(sample) ?? []));
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
 * Returns the bytes of weights that an engine reads per token.
 *
 * @param {Record<string, number>} bytesPerToken
 * @param {import('./catalog.mjs').TypeName} type
 * @param {string} engine
 */
const weightsOf = (bytesPerToken, type, engine) => bytesPerToken[(engine === LLAMA && TYPES[type].gguf) || type];

/**
 * Whether the weights have the same values as those of the other engines: GGUF quantizes differently.
 *
 * @param {string} engine
 * @param {import('./catalog.mjs').TypeName} type
 */
const hasSameWeights = (engine, type) => engine !== LLAMA || TYPES[type].gguf === 'F16';

/**
 * Returns the share of the read bandwidth that a token uses.
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
 * @property {ReturnType<typeof summarize>} [summary] absent if nothing was generated
 * @property {number} weights bytes
 * @property {number | null} share of reading
 * @property {number} [firstTextMs]
 * @property {{ same: number, of: number } | null} agreement tokens equal to the reference's; null for the reference
 *   itself, and for other weights
 */

/**
 * Returns the rows of one measurement.
 *
 * @param {import('./measure.mjs').Measurement} measurement
 * @param {Pick<Run, 'bytesPerToken' | 'reading'>} run
 * @returns {Row[]} by prompt
 */
export function rowsOf({ type, threads, prompts, results }, { bytesPerToken, reading }) {
  const gbps = reading?.find((one) => one.threads === threads)?.gbps;
  return prompts.flatMap((prompt) => {
    const summaries = new Map(
      results.flatMap(({ engine, texts }) => {
        const text = texts.find((one) => one.prompt === prompt);
        return text === undefined ? [] : [[engine, summarize(text.samples)]];
      }),
    );
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
 * Lists the mistakes of this package: types that it cannot run, and different first tokens where engines round alike.
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
    return [`${where}: only the first ${agreement.same} tokens agree with the reference`];
  });
}

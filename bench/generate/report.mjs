// The report as tables of text, for the terminal and for RESULTS.md.

import { group, max } from 'd3-array';
import { formatBytes, formatPlural, formatRate, formatShare } from '../../packages/cli/lib/format.mjs';
import { DIRTY_ABOVE } from '../../packages/cli/lib/statistics.mjs';
import { markdownTable, notesAsMarkdown } from '../report/markdown.mjs';
import { notesOf } from '../report/rows.mjs';
import { TYPES } from './catalog.mjs';
import { REFERENCES } from './engines.mjs';
import { rowsOf } from './rows.mjs';

/** @typedef {import('./rows.mjs').Row} Row */

const NONE = '–';

const shown = (/** @type {number | null | undefined} */ value) => formatRate(value ?? null);
const isDecoder = (/** @type {import('./catalog.mjs').TypeName} */ type) => TYPES[type].model === 'decoder';
const megabytes = (/** @type {number} */ bytes) => (bytes / 1e6).toFixed(0);

/** @param {Pick<import('./rows.mjs').Run, 'measurements' | 'bytesPerToken' | 'reading'>} run */
const allRows = (run) => run.measurements.flatMap((one) => rowsOf(one, run));

/** Shows a value only in the first of several equal rows. */
const once = (/** @type {Row[]} */ rows, /** @type {number} */ i, /** @type {(row: Row) => string} */ of) =>
  i > 0 && of(rows[i - 1]) === of(rows[i]) ? '' : of(rows[i]);

/** @param {Row} row */
function cellsOf({ type, engine, status, summary, weights, share, firstTextMs, agreement, prompt }) {
  if (summary === undefined || status !== 'ok') return [engine, status === 'unsupported' ? 'not supported' : status, ...Array(9).fill(NONE)];
  const { perSecond, firstMs, outsideMs, peakBytes, clean, total } = summary;
  return [
    engine,
    `${shown(perSecond)}${clean === 0 ? '*' : ''}`,
    // The prompt of an encoder-decoder is short: its time is the encoder's.
    isDecoder(type) ? shown((1000 * prompt) / firstMs) : NONE,
    shown(firstMs),
    shown(firstTextMs),
    megabytes(peakBytes),
    megabytes(weights),
    share === null ? NONE : formatShare(share),
    shown(outsideMs),
    agreement === null ? NONE : `${agreement.same}/${agreement.of}`,
    `${clean}/${total}`,
  ];
}

const HEAD = [
  'type',
  'engine',
  '>tokens/s',
  '>prompt, tokens/s',
  '>first token, ms',
  '>from the file, ms',
  '>peak memory, MB',
  '>weights, MB',
  '>of reading',
  '>outside, ms',
  '>same tokens',
  '>clean',
];

/**
 * @param {Row[]} rows of one length and number of threads
 * @param {number} tokens
 * @returns {import('../report/tables.mjs').ReportTable}
 */
function tableOf(rows, tokens) {
  const [{ type, prompt, threads }] = rows;
  const text = isDecoder(type) ? `A prompt of ${prompt}` : `Speech, a prompt of ${prompt}`;
  return {
    title: `${text}, then ${tokens} tokens, ${formatPlural(threads, 'thread')}`,
    head: HEAD,
    rows: rows.map((row, i) => [once(rows, i, ({ type }) => type), ...cellsOf(row)]),
  };
}

/**
 * Returns the best tokens per second of each engine over all thread counts.
 *
 * @param {Row[]} rows of the shortest prompts
 * @param {string[]} engines
 * @returns {import('../report/tables.mjs').ReportTable}
 */
function bestTable(rows, engines) {
  const types = [...new Set(rows.map(({ type }) => type))];
  const best = (/** @type {string} */ type, /** @type {string} */ engine) => {
    const ofEngine = rows.filter((row) => row.type === type && row.engine === engine && row.summary?.perSecond != null);
    const fastest = max(ofEngine, ({ summary }) => /** @type {number} */ (summary?.perSecond));
    const row = ofEngine.find(({ summary }) => summary?.perSecond === fastest);
    return row === undefined ? NONE : `${shown(fastest)} (${row.threads})`;
  };
  return {
    title: 'Tokens per second, at best',
    remark: 'After the shortest prompt; in parentheses, the number of threads.',
    head: ['type', ...engines.map((engine) => `>${engine}`)],
    rows: types.map((type) => [type, ...engines.map((engine) => best(type, engine))]),
  };
}

/** @param {import('./rows.mjs').Run} run */
function readingTable({ reading }) {
  return reading === null
    ? []
    : [
        {
          title: 'Reading of memory',
          head: ['>threads', '>GB/s'],
          rows: reading.map(({ threads, gbps }) => [String(threads), shown(gbps)]),
        },
      ];
}

/**
 * Returns the tables of a run.
 *
 * @param {import('./rows.mjs').Run} run
 * @returns {import('../report/tables.mjs').ReportTable[]}
 */
export function tablesOf(run) {
  const rows = allRows(run);
  const groups = group(rows, ({ type, prompt, threads }) => `${isDecoder(type)} ${prompt} ${threads}`).values();
  const inOrder = [...groups].sort(([a], [b]) => Number(isDecoder(b.type)) - Number(isDecoder(a.type)) || a.prompt - b.prompt || a.threads - b.threads);
  const shortest = (/** @type {Row} */ { type, prompt }) => rows.every((row) => row.type !== type || row.prompt >= prompt);
  return [bestTable(rows.filter(shortest), run.engines), ...inOrder.map((some) => tableOf(some, run.tokens)), ...readingTable(run)];
}

/** Returns the steps that engines could not do, once for each reason. @param {import('./rows.mjs').Run} run */
export const generateNotes = ({ measurements }) => notesOf(measurements.map(({ type, threads, results }) => ({ name: type, threads, results })));

/** How to read the tables. */
const EXPLANATION = [
  'Each engine runs in its own process, and texts are generated in turns; medians of clean texts, during which others kept at',
  `most ${DIRTY_ABOVE} processors busy; * none is clean. Types are those of weights: \`q4\` and \`q8\` leave the level of accuracy unset, \`q4-level4\``,
  'and llama.cpp round activations to 8 bits. Beside `fp16`, `q8` and `q4-level4`, node-llama-cpp runs F16, Q8_0 and Q4_0.',
  '',
  '- **tokens/s:** by the median time from one token to the next; **prompt, tokens/s:** by the time to the first token.',
  '- **first token:** from a prompt of a length that was run before. **from the file:** to load the model, and to the first token of',
  '  the first text.',
  '- **peak memory:** of the process so far. **weights:** bytes that each token reads; **of reading:** the share of the',
  '  bandwidth of memory that this takes.',
  '- **outside:** time per token that Transformers.js spends outside of `run()`.',
  `- **same tokens:** how many first tokens are those of ${REFERENCES[0]}.`,
];

/**
 * RESULTS.md.
 *
 * @param {import('./rows.mjs').Run} run
 * @returns {string}
 */
export function generateMarkdown(run) {
  const { date, machine, versions, rounds } = run;
  return [
    '# Results of text generation',
    '',
    `${date.slice(0, 10)}, ${machine.cpu}, ${machine.processors} processors, ${formatBytes(machine.memoryBytes)} memory, ${machine.system}, Node ${machine.node}. ` +
      `${Object.entries(versions)
        .map(([name, version]) => `${name} ${version}`)
        .join(', ')}. ${formatPlural(rounds, 'round')}.`,
    '',
    "A decoder-only model of SmolLM-135M's sizes and an encoder-decoder of Whisper tiny's, with random weights. To repeat it on an",
    'otherwise idle machine with Linux: `npm run bench -- generate --write`.',
    '',
    ...EXPLANATION,
    ...tablesOf(run).flatMap((table) => ['', `## ${table.title}`, '', ...(table.remark ? [table.remark, ''] : []), ...markdownTable(table)]),
    ...notesAsMarkdown(generateNotes(run)),
    '',
  ].join('\n');
}

// The report of a sweep: what became of each family and of each case.

import { group } from 'd3-array';
import { geometricMean } from '../../packages/cli/lib/statistics.mjs';
import { OURS } from '../peers.mjs';
import { markdownTable } from '../report/markdown.mjs';

/**
 * @typedef {object} Run
 * @property {string} date
 * @property {ReturnType<typeof import('../machine.mjs').describeMachine>} machine
 * @property {string[]} engines this package first
 * @property {Record<string, string>} versions
 * @property {number[]} threads
 * @property {number} samples
 * @property {import('./types.mjs').Outcome[]} outcomes
 *
 * @typedef {import('./types.mjs').Outcome} Outcome
 */

/** Speeds below which cases are counted, relative to the other engine. */
const LIMITS = [0.9, 0.7, 0.5];

/** Shorter cases measure calls more than operators. */
const SMALL_MS = 0.05;

/** Shorter cases are not worth a second thread. */
const SHARED_MS = 0.2;

/** Shorter times of operators alone say nothing: onnxruntime's profile has whole microseconds. */
const SHORTEST_MS = 0.005;

const NONE = '–';

/** @param {number | null} value */
const factor = (value) => (value === null ? NONE : value.toFixed(2));

/** Microseconds, with three digits as far as they are needed. @param {number} ms */
const time = (ms) => {
  const us = ms * 1000;
  return us < 10 ? us.toFixed(2) : us < 100 ? us.toFixed(1) : us.toFixed(0);
};

const threadsText = (/** @type {number} */ threads) => (threads === 1 ? '1 thread' : `${threads} threads`);

/** @param {Outcome} outcome */
const isTimed = ({ status }) => status === 'ok';

/**
 * Returns how fast this package is, relative to the other engine.
 *
 * @param {Outcome} outcome with times
 * @param {string} peer
 * @param {number} threads
 */
export const speedOf = ({ times }, peer, threads) => times[threads][peer].ms / times[threads][OURS].ms;

/**
 * Returns the same of the operators alone; null where one of the engines does not tell, or they are too short.
 *
 * @param {Outcome} outcome with times
 * @param {string} peer
 * @param {number} threads
 */
export function speedAlone({ times }, peer, threads) {
  const [ours, theirs] = [times[threads][OURS].alone, times[threads][peer].alone];
  return ours === null || theirs === null || Math.min(ours, theirs) < SHORTEST_MS ? null : theirs / ours;
}

/** @param {(number | null)[]} values */
const meanOf = (values) => geometricMean(values.filter((value) => value !== null));

/**
 * @param {string} name
 * @param {Outcome[]} outcomes with times
 * @param {string} peer
 * @param {number[]} threads
 */
function summaryRow(name, outcomes, peer, threads) {
  const cells = threads.flatMap((count) => {
    const speeds = outcomes.map((one) => speedOf(one, peer, count));
    const below = LIMITS.map((limit) => String(speeds.filter((speed) => speed < limit).length));
    return [factor(meanOf(speeds)), factor(meanOf(outcomes.map((one) => speedAlone(one, peer, count)))), ...below];
  });
  return [name, String(outcomes.length), ...cells];
}

/**
 * How much faster more threads are than one.
 *
 * @param {Outcome[]} outcomes with times
 * @param {string} engine
 * @param {number} threads
 */
const speedUp = (outcomes, engine, threads) => meanOf(outcomes.map(({ times }) => times[1][engine].ms / times[threads][engine].ms));

/**
 * @param {Run} run
 * @returns {import('../report/tables.mjs').ReportTable[]}
 */
function comparisons({ engines: [, peer], threads, outcomes }) {
  const timed = outcomes.filter(isTimed);
  const longest = (/** @type {Outcome} */ { times }) => Math.max(...[OURS, peer].map((engine) => times[threads[0]][engine].ms));
  const families = [...group(timed, ({ family }) => family)].map(([family, some]) => summaryRow(family, some, peer, threads));
  const long = timed.filter((one) => longest(one) >= SMALL_MS);
  const head = threads.flatMap((count) => [`>${threadsText(count)}`, '>alone', ...LIMITS.map((limit) => `>below ${limit}`)]);
  const tables = [
    {
      title: 'Families',
      remark: `Geometric means of the speeds relative to ${peer}, as a program sees it and of the operators alone; and the number of cases below ${LIMITS.join(', ')} as a program sees it.`,
      head: ['family', '>cases', ...head],
      rows: [summaryRow('all', timed, peer, threads), summaryRow(`from ${SMALL_MS * 1000} µs on`, long, peer, threads), ...families],
    },
  ];
  const more = threads.includes(1) ? threads.filter((count) => count > 1) : [];
  if (more.length === 0) return tables;
  const shared = timed.filter((one) => longest(one) >= SHARED_MS);
  /** @type {[string, Outcome[]][]} */
  const groups = [
    ['all', timed],
    [`from ${SHARED_MS * 1000} µs on`, shared],
  ];
  return [
    ...tables,
    {
      title: 'What more threads gain',
      remark: 'Geometric means of the speeds with these threads relative to one thread, as a program sees it.',
      head: ['cases', '>number', ...more.flatMap((count) => [`>${OURS}, ${threadsText(count)}`, `>${peer}, ${threadsText(count)}`])],
      rows: groups.map(([name, some]) => [
        name,
        String(some.length),
        ...more.flatMap((count) => [OURS, peer].map((engine) => factor(speedUp(some, engine, count)))),
      ]),
    },
  ];
}

/**
 * @param {Run} run
 * @returns {import('../report/tables.mjs').ReportTable} of all cases that were timed
 */
function casesTable({ engines: [, peer], threads, outcomes }) {
  const more = peer !== undefined && threads.includes(1) ? threads.filter((count) => count > 1) : [];
  const columns = threads.flatMap((count) => [`>${OURS}, ${threadsText(count)}`, ...(peer === undefined ? [] : [`>${peer}`, '>×', '>× alone'])]);
  const rows = outcomes.filter(isTimed).map((one) => {
    const { name, times } = one;
    const cells = threads.flatMap((count) => {
      const ours = time(times[count][OURS].ms);
      return peer === undefined ? [ours] : [ours, time(times[count][peer].ms), factor(speedOf(one, peer, count)), factor(speedAlone(one, peer, count))];
    });
    return [name, ...cells, ...more.flatMap((count) => [OURS, peer].map((engine) => factor(times[1][engine].ms / times[count][engine].ms)))];
  });
  return {
    title: 'Cases',
    remark:
      'Microseconds of a run as a program sees it, with its results read: the median of the turns’ medians' +
      (peer === undefined ? '.' : `. ×: speed relative to ${peer}; alone: of the operators, by the engines’ own profiles.`),
    head: ['case', ...columns, ...more.flatMap((count) => [`>gain of ${count}`, `>of ${peer}`])],
    rows,
  };
}

/** @param {Run} run */
export const tablesOf = (run) => [...(run.engines.length > 1 ? comparisons(run) : []), casesTable(run)];

/**
 * Returns what was not timed, with the reason.
 *
 * @param {Outcome[]} outcomes
 * @returns {string[]}
 */
export const notesOf = (outcomes) =>
  outcomes.filter((one) => !isTimed(one)).map(({ name, status, reason }) => `${name}: ${status}: ${reason?.replace(/\s+/g, ' ')}`);

/** @param {Run} run */
export function resultsMarkdown(run) {
  const { date, machine, versions, samples, outcomes } = run;
  const notes = notesOf(outcomes);
  const named = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return [
    '# Results of single operators',
    '',
    `${date.slice(0, 10)}, ${machine.cpu}, ${machine.processors} processors, ${machine.system}, Node ${machine.node}. ${named.join(', ')}.`,
    '',
    'To repeat it on an otherwise idle machine: `npm run bench -- operators --write`. Each engine has a process of its own, which gets each case once',
    `for each number of threads. Results are compared before anything is timed. The engines take ${samples} turns, with a pause between them,`,
    'in which threads that spin come to rest.',
    ...tablesOf(run).flatMap((table) => ['', `## ${table.title}`, '', table.remark ?? '', '', ...markdownTable(table)]),
    ...(notes.length === 0 ? [] : ['', '## Not timed', '', ...notes.map((note) => `- ${note}`)]),
    '',
  ].join('\n');
}

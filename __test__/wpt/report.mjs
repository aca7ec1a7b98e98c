// What the runner prints and writes: a line per test, totals per directory, and a report in the form of wptreport.

import { readFileSync } from 'node:fs';
import { arch, platform, release } from 'node:os';
import { posix } from 'node:path';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

/** Characters that would break a line of a terminal, and halves of surrogate pairs, escaped by their code. */
function printable(text) {
  return text.replace(/[\p{Cc}\u2028\u2029]|\p{Cs}/gu, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** @typedef {{ result: import('./execute.mjs').Result, verdict: import('./verdict.mjs').Verdict }} Outcome */

/**
 * The line of a test, and below it its failures.
 *
 * @param {import('./execute.mjs').Result} result
 * @param {import('./verdict.mjs').Verdict} verdict
 * @returns {string}
 */
export function linesOf({ test, status, duration, subtests }, { failures, listed, passed }) {
  const parts = [`${passed} of ${subtests.length} passed`];
  if (listed.length > 0) parts.push(`${listed.length} fail as listed`);
  if (failures.length > 0) parts.push(`${failures.length} failed`);
  const mark = failures.length > 0 ? 'FAILED' : 'ok';
  const lines = [`${mark.padEnd(6)}  ${status.padEnd(7)}  ${test.url}: ${parts.join(', ')} (${(duration / 1000).toFixed(1)} s)`];
  for (const failure of failures) {
    lines.push(`          ${failure.status}: ${printable(failure.name ?? 'the file')}: ${printable(failure.message ?? 'no message')}`);
  }
  return lines.join('\n');
}

/**
 * Totals per directory of the checkout, and of all.
 *
 * @param {Outcome[]} outcomes
 * @returns {Map<string, { files: number, subtests: number, passed: number, listed: number, failed: number }>}
 */
export function totalsOf(outcomes) {
  const totals = new Map();
  for (const { result, verdict } of outcomes) {
    for (const name of [posix.dirname(result.test.path), 'all']) {
      const sum = totals.get(name) ?? { files: 0, subtests: 0, passed: 0, listed: 0, failed: 0 };
      sum.files += 1;
      sum.subtests += result.subtests.length;
      sum.passed += verdict.passed;
      sum.listed += verdict.listed.length;
      sum.failed += verdict.failures.length;
      totals.set(name, sum);
    }
  }
  // The sum of all stands below its parts.
  const { all, ...parts } = Object.fromEntries(totals);
  return new Map([...Object.entries(parts).sort(([a], [b]) => (a < b ? -1 : 1)), .../** @type {[string, any][]} */ (all === undefined ? [] : [['all', all]])]);
}

/** The totals as a table of text. */
export function formatTotals(totals) {
  const rows = [
    ['directory', 'tests', 'subtests', 'passed', 'fail as listed', 'failed'],
    ...[...totals].map(([name, sum]) => [name, sum.files, sum.subtests, sum.passed, sum.listed, sum.failed].map(String)),
  ];
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows.map((row) => row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column]))).join('  ')).join('\n');
}

/** How many subtests each clause of the table was met by, as text. */
export function formatListed(verdicts) {
  const counts = new Map();
  for (const { clause } of verdicts.flatMap(({ listed }) => listed)) {
    counts.set(clause, (counts.get(clause) ?? 0) + 1);
  }
  return [...counts].map(([clause, count]) => `${String(count).padStart(6)}  ${clause}`).join('\n');
}

/** Lone surrogates as wptreport writes them. */
function withoutLoneSurrogates(text) {
  return text === null ? null : text.replace(/\p{Cs}/gu, (surrogate) => `U+${surrogate.charCodeAt(0).toString(16)}`);
}

/** A test of the report. `expected` is there only where the status is not the expected one. */
function reportedTest({ result, verdict }) {
  const unexpected = new Set(verdict.failures.map(({ name }) => name));
  const statusOf = (status, isUnexpected, usual) => (isUnexpected ? { status, expected: status === usual ? 'FAIL' : usual } : { status });
  return {
    test: result.test.url,
    subsuite: '',
    ...statusOf(result.status, unexpected.has(null), 'OK'),
    message: withoutLoneSurrogates(result.message),
    duration: result.duration,
    subtests: result.subtests.map(({ name, status, message }) => ({
      name: withoutLoneSurrogates(name),
      ...statusOf(status, unexpected.has(name), 'PASS'),
      message: withoutLoneSurrogates(message),
      known_intermittent: [],
    })),
  };
}

/**
 * A report in the form that `wpt run --log-wptreport` writes and wpt.fyi reads.
 *
 * @param {Outcome[]} outcomes
 * @param {{ revision?: string, begin: number, end: number }} run the commit of the checkout, times in ms since 1970
 * @returns {Record<string, any>}
 */
export function wptReport(outcomes, { revision, begin, end }) {
  return {
    run_info: {
      product: 'webnn-node',
      browser_version: version,
      browser_channel: 'experimental',
      revision: revision ?? 'unknown',
      os: { darwin: 'mac', win32: 'win' }[platform()] ?? platform(),
      os_version: release(),
      version: release(),
      processor: { x64: 'x86_64', arm64: 'aarch64' }[arch()] ?? arch(),
      bits: 64,
      runtime: `${process.release.name} ${process.version}`,
      automation: true,
      debug: false,
      display: null,
      has_sandbox: false,
      headless: true,
      verify: false,
      wasm: false,
    },
    time_start: begin,
    time_end: end,
    results: outcomes.map(reportedTest),
    subsuites: {},
  };
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatListed, formatTotals, linesOf, totalsOf, wptReport } from './report.mjs';

/** @type {any} its parts that count */
const ENTRY = { clause: 'a clause' };

/** @returns {import('./report.mjs').Outcome} */
function outcome(path, url, subtests, verdict, status = 'OK', message = /** @type {string | null} */ (null)) {
  return { result: { test: /** @type {any} */ ({ path, url }), status, message, duration: 1234, subtests }, verdict };
}

const OUTCOMES = [
  outcome(
    'webnn/b/x.any.js',
    '/webnn/b/x.any.html',
    [
      { name: 'good', status: 'PASS', message: null },
      { name: 'old \ud800', status: 'FAIL', message: 'refused' },
      { name: 'bad', status: 'FAIL', message: 'line\nbreak \udc00' },
      { name: 'changed', status: 'PASS', message: null },
    ],
    {
      passed: 1,
      listed: [ENTRY],
      failures: [
        { name: 'bad', status: 'FAIL', message: 'line\nbreak \udc00' },
        { name: 'changed', status: 'PASS', message: 'no failure, but listed' },
      ],
    },
  ),
  outcome(
    'webnn/a/y.any.js',
    '/webnn/a/y.any.html',
    [],
    { passed: 0, listed: [], failures: [{ name: null, status: 'CRASH', message: 'SIGSEGV' }] },
    'CRASH',
    'SIGSEGV',
  ),
];

test('a test is a line, and each of its failures another one', () => {
  assert.deepEqual(linesOf(OUTCOMES[0].result, OUTCOMES[0].verdict).split('\n'), [
    'FAILED  OK       /webnn/b/x.any.html: 1 of 4 passed, 1 fail as listed, 2 failed (1.2 s)',
    '          FAIL: bad: line\\u000abreak \\udc00',
    '          PASS: changed: no failure, but listed',
  ]);
  assert.equal(linesOf(OUTCOMES[1].result, { passed: 0, listed: [], inTime: [], failures: [] }), 'ok      CRASH    /webnn/a/y.any.html: 0 of 0 passed (1.2 s)');
});

test('totals are per directory, and of all', () => {
  assert.deepEqual(
    [...totalsOf(OUTCOMES)],
    [
      ['webnn/a', { files: 1, subtests: 0, passed: 0, listed: 0, failed: 1 }],
      ['webnn/b', { files: 1, subtests: 4, passed: 1, listed: 1, failed: 2 }],
      ['all', { files: 2, subtests: 4, passed: 1, listed: 1, failed: 3 }],
    ],
  );
  assert.deepEqual(formatTotals(totalsOf(OUTCOMES)).split('\n'), [
    'directory  tests  subtests  passed  fail as listed  failed',
    'webnn/a        1         0       0               0       1',
    'webnn/b        1         4       1               1       2',
    'all            2         4       1               1       3',
  ]);
});

test('clauses are counted', () => {
  assert.equal(formatListed(OUTCOMES.map(({ verdict }) => verdict)), '     1  a clause');
  assert.equal(formatListed([]), '');
});

test('the report has the form of wptreport', () => {
  const report = wptReport(OUTCOMES, { revision: 'f'.repeat(40), begin: 1000, end: 2000 });
  assert.equal(report.time_start, 1000);
  assert.equal(report.time_end, 2000);
  assert.equal(report.run_info.product, 'webnn-node');
  assert.equal(report.run_info.revision, 'f'.repeat(40));
  for (const key of ['browser_version', 'os', 'os_version', 'version', 'processor']) {
    assert.equal(typeof report.run_info[key], 'string', key);
  }
  assert.deepEqual(report.results, [
    {
      test: '/webnn/b/x.any.html',
      subsuite: '',
      status: 'OK',
      message: null,
      duration: 1234,
      // What is expected stands only where it is not what came.
      subtests: [
        { name: 'good', status: 'PASS', message: null, known_intermittent: [] },
        { name: 'old U+d800', status: 'FAIL', message: 'refused', known_intermittent: [] },
        { name: 'bad', status: 'FAIL', expected: 'PASS', message: 'line\nbreak U+dc00', known_intermittent: [] },
        { name: 'changed', status: 'PASS', expected: 'FAIL', message: null, known_intermittent: [] },
      ],
    },
    {
      test: '/webnn/a/y.any.html',
      subsuite: '',
      status: 'CRASH',
      expected: 'OK',
      message: 'SIGSEGV',
      duration: 1234,
      subtests: [],
    },
  ]);
});

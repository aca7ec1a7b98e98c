import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CONTRADICTIONS } from './contradictions.mjs';
import { judge, unusedEntries } from './verdict.mjs';

const ENTRY = { clause: 'a clause', files: /a\.https/, subtests: /^old/, message: /refused/ };
const FILE_ENTRY = { clause: 'a clause of the set-up', files: /b\.https/, subtests: null, message: /set-up/ };
const TABLE = [ENTRY, FILE_ENTRY];

const result = (path, subtests, status = 'OK', message = /** @type {string | null} */ (null)) => ({
  test: { path },
  status,
  message,
  subtests: subtests.map(([name, itsStatus, itsMessage = null]) => ({ name, status: itsStatus, message: itsMessage })),
});

test('what passes and is not listed has passed, what does not pass has failed', () => {
  const { passed, listed, failures } = judge(
    result('a.https', [
      ['new', 'PASS'],
      ['x', 'FAIL', 'why'],
      ['y', 'NOTRUN'],
    ]),
    TABLE,
  );
  assert.equal(passed, 1);
  assert.deepEqual(listed, []);
  assert.deepEqual(failures, [
    { name: 'x', status: 'FAIL', message: 'why' },
    { name: 'y', status: 'NOTRUN', message: null },
  ]);
});

test('a listed subtest has to fail, in its file and with its message', () => {
  assert.deepEqual(judge(result('a.https', [['old 1', 'FAIL', 'it was refused']]), TABLE), {
    passed: 0,
    listed: [ENTRY],
    inTime: [],
    failures: [],
  });
  for (const [path, subtest, message] of [
    ['a.https', ['old 1', 'PASS'], 'no failure, but listed: a clause'],
    ['a.https', ['old 1', 'FAIL', 'other'], 'other; this is not the listed failure: a clause'],
    ['a.https', ['old 1', 'TIMEOUT', 'it was refused'], 'it was refused; this is not the listed failure: a clause'],
    ['c.https', ['old 1', 'FAIL', 'it was refused'], 'it was refused'],
  ]) {
    const { failures } = judge(result(path, [subtest]), TABLE);
    assert.deepEqual(failures, [{ name: 'old 1', status: subtest[1], message }]);
  }
});

test('a listed file has to end with its error, which explains what has not run and nothing else', () => {
  const subtests = [
    ['done', 'PASS'],
    ['missed', 'NOTRUN'],
    ['wrong', 'FAIL', 'why'],
  ];
  assert.deepEqual(judge(result('b.https', subtests, 'ERROR', 'in the set-up'), TABLE), {
    passed: 1,
    listed: [FILE_ENTRY, FILE_ENTRY],
    inTime: [],
    failures: [{ name: 'wrong', status: 'FAIL', message: 'why' }],
  });
  for (const [status, message] of /** @type {[string, string | null][]} */ ([
    ['OK', null],
    ['CRASH', 'in the set-up'],
    ['ERROR', 'elsewhere'],
  ])) {
    const { failures } = judge(result('b.https', [['done', 'PASS']], status, message), TABLE);
    assert.equal(failures.length, 1);
    assert.equal(failures[0].name, null);
    assert.match(String(failures[0].message), /a clause of the set-up$/);
  }
});

test('a file that crashed, took too long, or has no test has failed', () => {
  for (const status of ['CRASH', 'TIMEOUT', 'ERROR']) {
    assert.deepEqual(judge(result('c.https', [['done', 'PASS']], status, 'why'), TABLE).failures, [{ name: null, status, message: 'why' }]);
  }
  assert.deepEqual(judge(result('c.https', []), TABLE).failures, [{ name: null, status: 'ERROR', message: 'the file has no test' }]);
});

test('entries for what a runtime lacks hold where it lacks it', () => {
  const table = [{ ...ENTRY, without: 'ArrayBuffer' }];
  assert.equal(judge(result('a.https', [['old', 'PASS']]), table).passed, 1);
  assert.deepEqual(unusedEntries(table, []), []);
  assert.deepEqual(judge(result('a.https', [['old', 'FAIL', 'refused']]), [{ ...ENTRY, without: 'NoSuchGlobal' }]).failures, []);
});

test('where an outcome depends on time, both are accepted and nothing else', () => {
  const [entry, fileEntry] = TABLE.map((given) => ({ ...given, timing: 'the test does not wait for its promise' }));
  const table = [entry, fileEntry];
  const early = judge(
    result('a.https', [
      ['old', 'PASS'],
      ['new', 'PASS'],
    ]),
    table,
  );
  assert.deepEqual(early, { passed: 2, listed: [], inTime: [entry], failures: [] });
  const late = judge(result('a.https', [['old', 'FAIL', 'refused']]), table);
  assert.deepEqual(late, { passed: 0, listed: [entry], inTime: [], failures: [] });
  for (const [status, message] of /** @type {[string, string | null][]} */ ([
    ['FAIL', 'other'],
    ['TIMEOUT', 'refused'],
    ['NOTRUN', null],
  ])) {
    assert.equal(judge(result('a.https', [['old', status, message]]), table).failures.length, 1, status);
  }
  assert.deepEqual(judge(result('b.https', [['done', 'PASS']]), table).inTime, [fileEntry]);
  // Both outcomes stand for an entry; where the test itself is gone, it is found.
  for (const verdict of [early, late]) assert.deepEqual(unusedEntries(table, [verdict]), [fileEntry]);
  assert.deepEqual(unusedEntries(table, [judge(result('a.https', [['new', 'PASS']]), table)]), table);
});

test('entries that nothing stands for are found', () => {
  const verdict = judge(result('a.https', [['old', 'FAIL', 'refused']]), TABLE);
  assert.deepEqual(unusedEntries(TABLE, [verdict]), [FILE_ENTRY]);
});

test('every entry of the table has a clause, a place and a message', () => {
  assert.ok(CONTRADICTIONS.length > 0);
  for (const entry of /** @type {import('./verdict.mjs').Entry[]} */ (CONTRADICTIONS)) {
    const { clause, patch, files, subtests, message, timing } = entry;
    assert.ok(clause.length > 20, clause);
    assert.match(patch ?? '', /^\w.*[^.]$/, clause);
    assert.ok(timing === undefined || timing.length > 20, String(timing));
    assert.ok(files instanceof RegExp && message instanceof RegExp);
    assert.ok(subtests === null || subtests instanceof RegExp);
  }
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseMeta, testsOf, TIMEOUTS } from './meta.mjs';

const urlsOf = (path, source) => testsOf(path, source).map(({ url }) => url);

test('metadata are the comments at the top, up to the first other line', () => {
  assert.deepEqual(parseMeta('// META: title=a = b \r\n//META:script=x.js\n// META: script=/y.js\n\n// META: timeout=long\n'), [
    ['title', 'a = b'],
    ['script', 'x.js'],
    ['script', '/y.js'],
  ]);
  assert.deepEqual(parseMeta("'use strict';\n// META: timeout=long"), []);
});

test('a file stands for a test in each scope and variant', () => {
  const source = '// META: global=window,worker\n// META: variant=?cpu\n// META: variant=?op=sub&device=gpu\n';
  const tests = testsOf('webnn/conformance_tests/abs.https.any.js', source);
  assert.deepEqual(
    tests.map(({ url, scope, isInNode, device }) => [url, scope, isInNode, device]),
    [
      ['/webnn/conformance_tests/abs.https.any.html?cpu', 'window', true, 'cpu'],
      ['/webnn/conformance_tests/abs.https.any.html?op=sub&device=gpu', 'window', true, 'gpu'],
      ['/webnn/conformance_tests/abs.https.any.worker.html?cpu', 'dedicatedworker', true, 'cpu'],
      ['/webnn/conformance_tests/abs.https.any.worker.html?op=sub&device=gpu', 'dedicatedworker', true, 'gpu'],
      ['/webnn/conformance_tests/abs.https.any.sharedworker.html?cpu', 'sharedworker', false, 'cpu'],
      ['/webnn/conformance_tests/abs.https.any.sharedworker.html?op=sub&device=gpu', 'sharedworker', false, 'gpu'],
      ['/webnn/conformance_tests/abs.https.any.serviceworker.html?cpu', 'serviceworker', false, 'cpu'],
      ['/webnn/conformance_tests/abs.https.any.serviceworker.html?op=sub&device=gpu', 'serviceworker', false, 'gpu'],
    ],
  );
});

test('without metadata an .any.js runs in a window and in a worker', () => {
  assert.deepEqual(urlsOf('webnn/a.any.js', ''), ['/webnn/a.any.html', '/webnn/a.any.worker.html']);
  assert.deepEqual(urlsOf('webnn/a.any.js', '// META: global=window'), ['/webnn/a.any.html']);
});

test('other tests name their scope, and helpers are no tests', () => {
  assert.deepEqual(urlsOf('webnn/a.window.js', '// META: variant=?npu'), ['/webnn/a.window.html?npu']);
  assert.deepEqual(urlsOf('webnn/a.worker.js', ''), ['/webnn/a.worker.html']);
  assert.equal(testsOf('webnn/a.worker.js', '')[0].scope, 'dedicatedworker');
  assert.deepEqual(urlsOf('webnn/resources/utils.js', '// META: global=window'), []);
});

test('scripts are resolved on the server, in order, the file last', () => {
  const source = '// META: script=../resources/utils.js\n// META: script=/resources/WebIDLParser.js\n// META: script=./near.js\n';
  assert.deepEqual(testsOf('webnn/validation_tests/a.window.js', source)[0].scripts, [
    '/webnn/resources/utils.js',
    '/resources/WebIDLParser.js',
    '/webnn/validation_tests/near.js',
    '/webnn/validation_tests/a.window.js',
  ]);
});

test('time limits are those of the test server', () => {
  assert.deepEqual(TIMEOUTS, { normal: 10_000, long: 60_000 });
  assert.equal(testsOf('webnn/a.window.js', '')[0].timeout, TIMEOUTS.normal);
  assert.equal(testsOf('webnn/a.window.js', '// META: timeout=long\n// META: title=T')[0].timeout, TIMEOUTS.long);
  assert.equal(testsOf('webnn/a.window.js', '// META: timeout=long\n// META: title=T')[0].title, 'T');
});

test('a variant that is no query is an error', () => {
  assert.throws(() => testsOf('webnn/a.window.js', '// META: variant=cpu'), /^Error: webnn\/a\.window\.js: variant "cpu" begins with neither \? nor #$/);
});

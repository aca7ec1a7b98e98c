/**
 * The runner on small checkouts that these tests write. In place of testharness.js, which is not ours to copy, they have
 * a few lines that tell results in its form; all else is as in a real run.
 */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runNode } from '../lib/processes.mjs';
import { temporaryFolder } from '../lib/folders.mjs';
import { findTests, IDL, servedFile } from './checkout.mjs';
import { execute } from './execute.mjs';

const PROGRAM = fileURLToPath(new URL('run.mjs', import.meta.url));

/** `check(name, condition)` is a test with its result, `pending(name)` one that began, `done()` ends the file. */
const HARNESS = `
  const callbacks = {};
  for (const name of ['test_state', 'result', 'completion']) {
    self['add_' + name + '_callback'] = (callback) => { callbacks[name] = callback; };
  }
  const isWorker = GLOBAL.isWorker();
  const tell = (type, test) =>
    isWorker ? postMessage({ type, test }) : callbacks[type]({ structured_clone: () => test });
  let index = 0;
  var pending = (name) => tell('test_state', { index: ++index, name, phase: 1, status: 3, message: null });
  var check = (name, condition) => {
    pending(name);
    tell('result', { index, name, phase: 3, status: condition ? 0 : 1, message: condition ? null : 'it is not so' });
  };
  var finish = (status = 0, message = null) =>
    isWorker
      ? postMessage({ type: 'complete', status: { status, message } })
      : callbacks.completion([], { structured_clone: () => ({ status, message }) });
  var done = () => {};
  addEventListener('error', (event) => finish(1, event.message));
  addEventListener('unhandledrejection', (event) => finish(1, event.reason.message));
`;

/** A checkout with these files below webnn/. */
function checkout(t, files) {
  const tests = Object.entries(files).map(([name, text]) => [`webnn/${name}`, text]);
  return temporaryFolder(t, { 'resources/testharness.js': HARNESS, 'interfaces/html.idl': 'interface Navigator {};', ...Object.fromEntries(tests) });
}

/** The result of the only test of a checkout with one test file. */
async function resultOf(t, name, source, change = {}) {
  const directory = checkout(t, { [name]: source });
  const [only, ...rest] = findTests(directory);
  assert.deepEqual(rest, []);
  return execute(directory, { ...only, ...change });
}

const statuses = ({ subtests }) => subtests.map(({ name, status }) => [name, status]);

const SCOPE = `
  check('the interfaces are there', typeof MLGraphBuilder === 'function' && navigator.ml instanceof ML);
  check('self is the global object', self === globalThis);
  check('location is that of the test', location.search === '?cpu' && location.pathname.endsWith('.html'));
  check('the title is known', META_TITLE === 'a title');
  check('helpers share the scope', typeof helper === 'function' && helper() === constant);
  check('sets and buffers have their methods', new Set([1, 2]).difference(new Set([1])).size === 1 &&
    new ArrayBuffer(4).transfer(8).byteLength === 8);
  const buffer = new ArrayBuffer(4);
  check('a buffer is not detached', buffer.detached === false);
  check('contents move', new Uint8Array(new Uint8Array([1, 2]).buffer.transfer())[1] === 2);
  buffer.transfer();
  check('and then it is', buffer.detached === true);
  (async () => {
    check('files are fetched', (await (await fetch('/interfaces/html.idl')).text()).includes('Navigator'));
    check('so are those beside the test', (await fetch('helper.js')).ok);
    check('others are not found', (await fetch('/interfaces/none.idl')).status === 404);
    check('nor is what lies outside', (await fetch('/%2e%2e/' + 'x')).status === 404);
    check('webnn.idl is the repository’s', (await (await fetch('/interfaces/webnn.idl')).text()).includes('accelerated'));
    const context = await navigator.ml.createContext();
    check('contexts are made', context instanceof MLContext);
    finish();
  })();
`;
const META = '// META: script=./helper.js\n// META: title=a title\n// META: variant=?cpu\n';
const HELPER = 'const constant = 7;\nfunction helper() { return constant; }\n';

/** Asserts that the first test of a checkout has so many subtests, which all pass. */
async function checkThatAllPass(directory, count) {
  const [only] = findTests(directory);
  const { status, message, subtests } = await execute(directory, only);
  assert.equal(status, 'OK', String(message));
  assert.deepEqual(
    subtests.filter((subtest) => subtest.status !== 'PASS'),
    [],
  );
  assert.equal(subtests.length, count);
}

test('a window has what tests look for', async (t) => {
  const directory = checkout(t, {
    'x.window.js': `${META}${SCOPE}
      check('it is a window', GLOBAL.isWindow() && !GLOBAL.isWorker() && 'Window' in self && !('document' in self));
      check('it is isolated as its headers say', crossOriginIsolated === true);`,
    'x.window.js.headers': 'Cross-Origin-Embedder-Policy: require-corp\nCross-Origin-Opener-Policy: same-origin\n',
    'helper.js': HELPER,
  });
  await checkThatAllPass(directory, 17);
});

test('a dedicated worker is a thread of its own', async (t) => {
  const directory = checkout(t, {
    'x.worker.js': `${META}${SCOPE}
      check('it is a worker', GLOBAL.isWorker() && self instanceof DedicatedWorkerGlobalScope && !('Window' in self));
      check('its navigator has its class', navigator instanceof WorkerNavigator);
      check('it is not isolated', crossOriginIsolated === false);`,
    'helper.js': HELPER,
  });
  await checkThatAllPass(directory, 18);
});

for (const kind of ['window', 'worker']) {
  test(`a crash in a ${kind} is one of its test only, and what was done before counts`, async (t) => {
    const result = await resultOf(
      t,
      `x.${kind}.js`,
      `check('before', true); pending('crashes'); setTimeout(() => process.kill(process.pid, 'SIGABRT'), 1000);`,
    );
    assert.equal(result.status, 'CRASH');
    assert.match(String(result.message), /^the process ended with (SIGABRT|exit code)/);
    assert.deepEqual(statuses(result), [
      ['before', 'PASS'],
      ['crashes', 'ERROR'],
    ]);
  });

  test(`a ${kind} that hangs is killed when its time is over`, async (t) => {
    const source = `check('before', true); pending('hangs'); setTimeout(() => { for (;;) ; }, 100);`;
    // Enough for a process to start while others hold all cores.
    const result = await resultOf(t, `x.${kind}.js`, source, { timeout: 8000 });
    assert.equal(result.status, 'TIMEOUT');
    assert.equal(result.message, 'not done after 8 s');
    assert.deepEqual(statuses(result), [
      ['before', 'PASS'],
      ['hangs', 'TIMEOUT'],
    ]);
  });

  test(`exceptions and rejections that nobody handles in a ${kind} reach the harness`, async (t) => {
    for (const [source, message] of [
      ['throw new RangeError("mine")', 'RangeError: mine'],
      ['setTimeout(() => { throw new RangeError("late") })', 'RangeError: late'],
      ['Promise.reject(new RangeError("rejected"))', 'rejected'],
      ['this is no program', "SyntaxError: Unexpected identifier 'is'"],
    ]) {
      const result = await resultOf(t, `x.${kind}.js`, source);
      assert.deepEqual([result.status, result.message], ['ERROR', message]);
    }
  });
}

test('a process that ends by itself with an error has crashed, with its output', async (t) => {
  const result = await resultOf(t, 'x.window.js', `console.error('the last words'); setTimeout(() => process.exit(3), 100)`);
  assert.equal(result.status, 'CRASH');
  assert.equal(result.message, 'the process ended with exit code 3: the last words\n');
});

test('a process that has nothing left to do and was not done is told so', async (t) => {
  const result = await resultOf(t, 'x.window.js', `pending('waits');`);
  assert.equal(result.status, 'TIMEOUT');
  assert.match(String(result.message), /nothing left to wait for/);
  assert.deepEqual(statuses(result), [['waits', 'TIMEOUT']]);
});

test('the interfaces are those of the draft, whatever the checkout has', (t) => {
  const directory = checkout(t, {});
  assert.equal(servedFile(directory, '/interfaces/webnn.idl'), IDL);
  assert.equal(servedFile(directory, '/resources/WebIDLParser.js'), join(directory, 'resources/webidl2/lib/webidl2.js'));
  assert.equal(servedFile(directory, '/../secret'), undefined);
});

/** Runs the program to its end. */
const run = (...args) => runNode([PROGRAM, ...args]);

test('wrong usage ends with exit status 2 and the usage', async (t) => {
  const directory = checkout(t, { 'x.window.js': 'finish();' });
  for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
    [[], /^--wpt DIR is missing$/m],
    [['--wpt', join(directory, 'webnn')], /webnn has no webnn, resources.testharness\.js, interfaces$/m],
    [['--wpt', directory, '--device', 'tpu'], /^--device is "tpu", expected cpu, gpu, npu$/m],
    [['--wpt', directory, '--jobs', '0'], /^--jobs is "0", expected a positive integer$/m],
    [['--wpt', directory, '--filter', '('], /^--filter: Invalid regular expression/m],
    [['--wpt', directory, '--json', directory], /^--json: EISDIR: /m],
    [['--wpt', directory, '--json', join(directory, 'none', 'report.json')], /^--json: ENOENT: /m],
    [['--wpt', directory, '--bogus'], /^Unknown option '--bogus'/m],
  ])) {
    const { code, stderr } = await run(...args);
    assert.equal(code, 2);
    assert.match(stderr, message);
    assert.match(stderr, /^usage: /m);
  }
  const { code, stdout } = await run('--help');
  assert.equal(code, 0);
  assert.match(stdout, /^usage: .*--filter.*--device.*--json.*--jobs/s);
});

test('contexts of the variants ?gpu and ?npu ask for a GPU, unless the test has another preference', async (t) => {
  // With this value of the variable, contexts that ask for a GPU are refused, whatever hardware there is.
  const source = `// META: global=window
// META: variant=?cpu
// META: variant=?gpu
// META: variant=?npu
process.env.WEBNN_GPU_SOFTWARE = 'refused';
const asks = (options) => navigator.ml.createContext(options).then(() => false, ({ name }) => name === 'NotSupportedError');
Promise.all([undefined, { deviceType: 'gpu' }, { powerPreference: 'low-power' }, { accelerated: false }].map(asks)).then((asking) => {
  check(JSON.stringify(asking), true);
  finish();
});`;
  const directory = checkout(t, { 'x.https.any.js': source });
  const found = findTests(directory);
  const results = await Promise.all(found.map((each) => execute(directory, each)));
  assert.deepEqual(
    results.map(({ test: { variant }, subtests: [{ name }] }) => [variant, JSON.parse(name)]),
    [
      ['?cpu', [false, false, false, false]],
      ['?gpu', [true, true, false, false]],
      ['?npu', [true, true, false, false]],
    ],
  );
});

test('a run prints a line per test and totals, writes a report, and tells by its exit status', async (t) => {
  const directory = checkout(t, {
    'a/good.https.any.js': `// META: global=window,worker\n// META: variant=?cpu\n// META: variant=?gpu\ncheck('one', true); finish();`,
    'b/bad.https.any.js': `// META: global=window\ncheck('two', false); finish();`,
    'b/crash.https.any.js': '// META: global=window\nprocess.abort();',
  });
  const file = join(directory, 'report.json');
  const all = await run('--wpt', directory, '--json', file, '--jobs', '2');
  assert.equal(all.code, 1, all.stderr);
  assert.match(all.stdout, /^6 tests of /m);
  assert.match(all.stdout, /^interfaces\/webnn\.idl is replaced by spec\/webnn\.idl/m);
  assert.match(all.stdout, /^4 tests are for shared and service workers, which Node lacks: not run$/m);
  assert.match(all.stdout, /^ok {6}OK {7}\/webnn\/a\/good\.https\.any\.worker\.html\?gpu: 1 of 1 passed/m);
  assert.match(all.stdout, /^ {10}FAIL: two: it is not so$/m);
  assert.match(all.stdout, /^FAILED {2}CRASH {4}\/webnn\/b\/crash\.https\.any\.html: 0 of 0 passed, 1 failed/m);
  assert.match(all.stdout, /^webnn\/a +4 +4 +4 +0 +0$/m);
  assert.match(all.stdout, /^webnn\/b +2 +1 +0 +0 +2$/m);
  assert.match(all.stdout, /^6 tests in \d+ s: 2 with failures, 1 crashed, 0 took too long$/m);
  // Here the tests that the table names do not exist.
  assert.match(all.stdout, /^table of contradictions: nothing fails as listed for /m);
  const report = JSON.parse(readFileSync(file, 'utf8'));
  assert.deepEqual(
    report.results.map((result) => [result.test, result.status, result.subtests.map(({ status }) => status)]),
    [
      ['/webnn/a/good.https.any.html?cpu', 'OK', ['PASS']],
      ['/webnn/a/good.https.any.html?gpu', 'OK', ['PASS']],
      ['/webnn/a/good.https.any.worker.html?cpu', 'OK', ['PASS']],
      ['/webnn/a/good.https.any.worker.html?gpu', 'OK', ['PASS']],
      ['/webnn/b/bad.https.any.html', 'OK', ['FAIL']],
      ['/webnn/b/crash.https.any.html', 'CRASH', []],
    ],
  );

  const good = await run('--wpt', directory, '--filter', '/a/', '--device', 'gpu');
  assert.equal(good.code, 0, good.stdout);
  assert.match(good.stdout, /^2 tests in \d+ s: 0 with failures/m);
  const none = await run('--wpt', directory, '--filter', 'nothing');
  assert.equal(none.code, 1);
  assert.match(none.stdout, /^0 tests of /m);
});

test('a listed subtest that passes is a failure, but for those whose outcome depends on time', async (t) => {
  const passing = (name) => `// META: global=window\ncheck(${JSON.stringify(name)}, true); finish();`;
  const directory = checkout(t, {
    'validation_tests/createContext.https.any.js': passing('Throw if deviceType is not a valid enum value'),
    'validation_tests/pad.https.any.js': passing('[pad] Throw if building pad for scalar input.'),
  });
  const byChance = await run('--wpt', directory, '--filter', 'createContext');
  assert.equal(byChance.code, 0, byChance.stdout);
  assert.match(byChance.stdout, /createContext\.https\.any\.html: 1 of 1 passed/);
  const listed = await run('--wpt', directory, '--filter', 'pad');
  assert.equal(listed.code, 1);
  assert.match(listed.stdout, /no failure, but listed: pad, tensor limits/);
});

test('a test is killed when the runner is asked to end', async (t) => {
  const directory = checkout(t, { 'x.window.js': `console.log('running'); for (;;) ;` });
  const [only] = findTests(directory);
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 1000);
  const result = await execute(directory, { ...only, timeout: 60_000 }, controller.signal);
  assert.equal(result.status, 'CRASH');
  assert.match(String(result.message), /SIGKILL/);
});

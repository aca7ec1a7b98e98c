import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { runNode } from '../lib/processes.mjs';
import { temporaryFolder } from '../lib/folders.mjs';

const PROGRAM = fileURLToPath(new URL('run.mjs', import.meta.url));

/** Runs the program; its exit code and the lines of its two streams. */
async function run(...args) {
  const { code, stdout, stderr } = await runNode([PROGRAM, ...args]);
  return { code, out: stdout.trimEnd().split('\n'), err: stderr };
}

function reluCase(name, output, dataType = 'float32') {
  return {
    name,
    inputs: { x: { dataType, shape: [3], data: [-1, 0, 2] } },
    operators: [{ name: 'relu', arguments: [{ input: { $operand: 'x' } }], outputs: 'y' }],
    expected: { y: { dataType, shape: [3], data: output } },
    tolerance: { metric: 'ULP', value: 0 },
  };
}

test('wrong usage ends with exit status 2 and the usage', async () => {
  for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
    [[], /expected one folder, got 0/],
    [['a', 'b'], /expected one folder, got 2/],
    [['/no/such/folder'], /no\/such\/folder is not a folder/],
    [[PROGRAM], /run\.mjs is not a folder/],
    [[tmpdir(), '--filter', '('], /--filter: Invalid regular expression/],
    [[tmpdir(), '--num-threads', '0'], /--num-threads is "0", expected a positive integer/],
    [[tmpdir(), '--concurrency', 'x'], /--concurrency is "x"/],
    [[tmpdir(), '--what'], /--what/],
  ])) {
    const { code, err } = await run(...args);
    assert.equal(code, 2, err);
    assert.match(err, message);
    assert.match(err, /usage: npm run conformance/);
  }
});

test('--help prints the usage and succeeds', async () => {
  const { code, out } = await run('--help');
  assert.equal(code, 0);
  assert.match(out[0], /^usage:/);
});

test('that no case ran is a failure', async (t) => {
  for (const [files, args] of /** @type {[Record<string, unknown>, string[]][]} */ ([
    [{}, []],
    [{ 'relu.json': [] }, []],
    [{ 'relu.json': [reluCase('some', [0, 0, 2])] }, ['--filter', 'other']],
  ])) {
    const { code, out } = await run(temporaryFolder(t, files), ...args);
    assert.equal(code, 1);
    assert.deepEqual(out.slice(-2), ['no case ran', '0 passed, 0 failed']);
  }
});

test('a file that cannot be read is a failure and is named', async (t) => {
  const directory = temporaryFolder(t, {
    'broken.json': '[{"name": ',
    'object.json': '{}',
    'short.json': [],
    'index.json': { files: { 'short.json': { cases: 2 }, 'missing.json': { cases: 1 } } },
  });
  const { code, out } = await run(directory);
  assert.equal(code, 1);
  const text = out.join('\n');
  assert.match(text, /^broken\.json: cannot be read: .*JSON/m);
  assert.match(text, /^object\.json: cannot be read: not an array of cases$/m);
  assert.match(text, /^short\.json: cannot be read: 0 cases, index\.json promises 2$/m);
  assert.match(text, /^missing\.json: cannot be read: ENOENT/m);
  assert.match(text, /0 cases, 4 unreadable files/);
});

test('passing cases are counted per file and in total', async (t) => {
  const directory = temporaryFolder(t, {
    'relu.json': [reluCase('float32', [0, 0, 2]), reluCase('float16', [0, 0, 2], 'float16'), reluCase('int32', [0, 0, 2], 'int32')],
    'constant.json': [{ ...reluCase('constant', [0, 0, 2]), inputs: { x: { dataType: 'float32', shape: [3], data: [-1, 0, 2], constant: true } } }],
    'split.json': [
      {
        name: 'two results',
        inputs: { x: { dataType: 'int64', shape: [2], data: ['-1', '9007199254740993'] } },
        operators: [{ name: 'split', arguments: [{ input: { $operand: 'x' } }, { splits: 2 }, { options: { axis: 0 } }], outputs: ['y', 'z'] }],
        expected: { y: { dataType: 'int64', shape: [1], data: ['-1'] }, z: { dataType: 'int64', shape: [1], data: ['9007199254740993'] } },
        tolerance: { metric: 'ULP', value: 0 },
      },
    ],
  });
  const { code, out, err } = await run(directory, '--num-threads', '2');
  assert.equal(code, 0, [...out, err].join('\n'));
  assert.match(out.join('\n'), /^relu\.json +3 passed +0 failed$/m);
  assert.equal(out.at(-1), '5 passed, 0 failed');
});

test('a wrong result is reported with element, values and distance', async (t) => {
  const directory = temporaryFolder(t, { 'relu.json': [reluCase('right', [0, 0, 2]), reluCase('wrong', ['NaN', 1, 2])] });
  const { code, out } = await run(directory, '--json', join(directory, 'results.txt'));
  assert.equal(code, 1);
  const text = out.join('\n');
  assert.match(text, /^relu\.json +1 passed +1 failed\n {2}FAILED wrong$/m);
  assert.match(text, /y\[0\]: got 0, expected NaN, distance Infinity/);
  assert.match(text, /y\[1\]: got 0, expected 1, distance 1065353216/);
  assert.match(text, /y: 2 of 3 elements differ/);
  assert.equal(out.at(-1), '1 passed, 1 failed');
  const results = JSON.parse(readFileSync(join(directory, 'results.txt'), 'utf8'));
  assert.equal(results.passed, 1);
  assert.deepEqual(results.files[0].failures[0].outputs[0].mismatches[0], { index: 0, got: 0, expected: 'NaN', distance: 'Infinity' });
});

test('a case that cannot be built or is malformed fails and does not stop the others', async (t) => {
  const right = reluCase('right', [0, 0, 2]);
  const directory = temporaryFolder(t, {
    'relu.json': [
      { ...right, name: 'other shape', expected: { y: { dataType: 'float32', shape: [1, 3], data: [0, 0, 2] } } },
      { ...right, name: 'no such output', expected: { z: right.expected.y } },
      { ...right, name: 'no output', expected: {} },
      { ...right, name: 'no such method', operators: [{ ...right.operators[0], name: 'frobnicate' }] },
      { name: 'empty' },
      null,
      right,
    ],
  });
  const { code, out } = await run(directory, '--filter', 'relu.json: ', '--concurrency', '2');
  assert.equal(code, 1);
  const text = out.join('\n');
  assert.match(text, /FAILED other shape\n.*output y is float32 \[3\], expected float32 \[1, 3\]/);
  assert.match(text, /FAILED no such output\n.*no operator makes the output z/);
  assert.match(text, /FAILED no output\n.*expects no output/);
  assert.match(text, /FAILED no such method\n/);
  assert.match(text, /FAILED empty\n/);
  assert.equal(out.at(-1), '1 passed, 6 failed');
});

// Engines in their processes, and measuring them. The only engine here is this package: no other is installed.

import assert from 'node:assert/strict';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { EngineError, EngineProcess } from '../../packages/cli/lib/bench/process.mjs';
import { temporaryFolder } from '../lib/folders.mjs';
import { measure } from '../../bench/measure.mjs';
import { findModels } from '../../bench/models.mjs';
import { readOptions } from '../../bench/options.mjs';
import { formatNpy } from '../../packages/cli/lib/npy.mjs';
import { defined } from '../lib/types.mjs';

const TINY = fileURLToPath(new URL('../../bench/tiny', import.meta.url));
const PLAN = { engines: ['webnn-node'], threads: 1, samples: 1, loads: 2 };

/** A process that answers each line by what `body` does with it. */
function engine(t, body) {
  const program = `
    const { writeSync } = require('node:fs');
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const request = JSON.parse(line);
      const answer = (value) => writeSync(3, JSON.stringify(value) + '\\n');
      ${body}
    });`;
  /** @type {EngineProcess<any>} */
  const started = new EngineProcess('test', [process.execPath, '-e', program]);
  t.after(() => started.end());
  return started;
}

test('an engine answers in order, and may print', async (t) => {
  const one = engine(t, `console.log('noise'); answer({ result: request.value + 1 });`);
  assert.equal(await one.request('next', { value: 1 }), 2);
  assert.equal(await one.request('next', { value: 2 }), 3);
});

test('what an engine cannot do, it says, with what it has printed last', async (t) => {
  const one = engine(t, `console.error('first\\nthe reason'); setTimeout(() => answer({ error: 'no' }), 200);`);
  await assert.rejects(one.request('any'), (error) => error instanceof EngineError && error.message === 'test: no (the reason)');
});

test('an engine that dies is an error with its last words', async (t) => {
  const one = engine(t, `process.stderr.write('out of luck', () => process.exit(3));`);
  await assert.rejects(one.request('load'), /test ended \(exit code 3\) during load: out of luck/);
  await one.end();
});

test('a program that does not exist is an error', async () => {
  const one = new EngineProcess('test', ['/there/is/no/such/program']);
  await assert.rejects(one.request('ready'), /test ended \(.*ENOENT.*\) during ready/);
});

test('the smallest model is loaded, checked and measured', { skip: process.platform !== 'linux' && 'needs /proc' }, async () => {
  const [tiny] = findModels(TINY, /add/);
  const done = [];
  const extra = { 'webnn-node': (process) => process.request('burst', { count: 10 }) };
  const [result] = await measure(tiny, PLAN, { advance: (part) => done.push(part), extra });
  assert.equal(result.status, 'ok', String(result.reason));
  assert.equal(result.check?.error, 0);
  assert.equal(result.loadMs?.length, 2);
  const [samples, memory, burst] = [defined(result.samples), defined(result.memory), /** @type {any} */ (result.extra)];
  assert.ok(samples.length >= 1 && samples.every(({ ms, iterations, foreign }) => ms > 0 && iterations > 1 && foreign >= 0));
  assert.ok(defined(memory.afterRuns) > memory.empty && memory.empty > 0);
  assert.ok(burst.ms >= burst.queuedMs);
  assert.equal(done.at(-1), 1);
});

test('a wrong output is told', { skip: process.platform !== 'linux' && 'needs /proc' }, async (t) => {
  const directory = temporaryFolder(t);
  cpSync(TINY, directory, { recursive: true });
  writeFileSync(join(directory, 'add', 'out_y.npy'), formatNpy({ dataType: 'float32', shape: [1], data: Float32Array.of(4) }));
  const [wrong] = findModels(directory, /add/);
  const [result] = await measure(wrong, { ...PLAN, loads: 1 });
  assert.equal(result.status, 'wrong');
  assert.match(defined(result.reason), /^y is off by 0\.125 standard deviations, allowed are 0\.0001$/);
});

test('a folder without models, or without their inputs, is named', (t) => {
  const directory = temporaryFolder(t);
  assert.throws(() => findModels(directory, /x/), /has no model/);
  cpSync(join(TINY, 'add.onnx'), join(directory, 'add.onnx'));
  assert.throws(() => findModels(directory, /add/), /in_x\.npy is missing/);
  assert.throws(() => findModels(join(directory, 'none'), /x/), /--models: there is no folder/);
});

test('the command line', () => {
  const options = readOptions(['--threads', '2,1,2', '--against', 'openvino', '--filter', '^a', '--samples', '3']);
  assert.deepEqual(options.threads, [2, 1]);
  assert.deepEqual(options.engines, ['webnn-node', 'openvino']);
  assert.deepEqual(options.filter, /^a/);
  assert.deepEqual(readOptions(['--against', 'none']).engines, ['webnn-node']);
  for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
    [['--threads', '0'], /--threads has 0/],
    [['--samples', '1.5'], /--samples has 1\.5/],
    [['--against', 'torch'], /--against names torch/],
    [['--filter', '('], /--filter/],
    [['--no-such'], /no-such/],
  ])) {
    assert.throws(() => readOptions(args), { message, exitCode: 2 });
  }
});

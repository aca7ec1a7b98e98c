// The worker for queues with a real Redis, which scripts/suites/serve.mjs starts.

import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { Queue, QueueEvents } from 'bullmq';
import { worker } from 'webnn-node-serve';
import { DIGITS, repositoryOf, slowModel } from '../../../packages/serve/__test__/support.mjs';
import { defined } from '../../lib/types.mjs';
import { until } from '../../lib/wait.mjs';

const connection = { url: process.env.REDIS_URL };
const PROGRAM = fileURLToPath(new URL('digits-worker.mjs', import.meta.url));
const PICTURES = JSON.parse(readFileSync(new URL('../../../examples/queue-worker/pictures.json', import.meta.url), 'utf8'));

let count = 0;

/** A queue of its own for a test. */
async function queueOf(t) {
  const name = `test-${process.pid}-${(count += 1)}`;
  const [queue, events] = [new Queue(name, { connection }), new QueueEvents(name, { connection })];
  await events.waitUntilReady();
  t.after(async () => {
    await queue.obliterate({ force: true });
    await Promise.all([queue.close(), events.close()]);
  });
  return { name, queue, events };
}

/** Starts a worker in a process of its own. */
async function startProcess(queue) {
  const child = fork(PROGRAM, [DIGITS], { env: { ...process.env, QUEUE: queue, NODE_TEST_CONTEXT: undefined } });
  const ended = once(child, 'exit');
  await once(child, 'message');
  return { child, ended };
}

test('a worker that is killed loses no job, and no effect counts twice', async (t) => {
  const { name, queue, events } = await queueOf(t);
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-queue-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const files = Array.from({ length: 400 }, (_, i) => path.join(folder, String(i)));
  files.forEach((file, i) => writeFileSync(file, JSON.stringify(PICTURES[i % PICTURES.length].flat(3).slice(0, 64))));
  const completed = new Map();
  events.on('completed', ({ jobId }) => completed.set(jobId, (completed.get(jobId) ?? 0) + 1));

  const [first, second] = await Promise.all([startProcess(name), startProcess(name)]);
  await queue.addBulk(files.map((file) => ({ name: 'digit', data: { file } })));
  await until(() => completed.size >= 40, 'some jobs are done');
  first.child.kill('SIGKILL');
  await first.ended;
  await until(async () => (await queue.getCompletedCount()) === files.length, 'all jobs are done');
  second.child.kill('SIGTERM');
  assert.deepEqual(await second.ended, [0, null]);

  assert.equal(await queue.getFailedCount(), 0);
  await until(() => completed.size === files.length, 'all ends are told');
  assert.deepEqual(new Set(completed.values()), new Set([1]), 'each job has one end');
  const digits = files.map((file) => readFileSync(`${file}.digit`, 'utf8'));
  files.forEach((_, i) => assert.equal(digits[i], digits[i % PICTURES.length], 'the same picture, the same digit'));
  const whole = readdirSync(folder).filter((file) => file.endsWith('.digit'));
  assert.equal(whole.length, files.length);
});

test('locks are renewed while computations take seconds', async (t) => {
  const { name, queue } = await queueOf(t);
  const { file, feeds, remove } = slowModel();
  t.after(remove);
  const running = await worker(name, {
    connection,
    model: file,
    log: false,
    batch: 1,
    // A lock that a busy machine does not lose either, and a short time between renewals.
    worker: { lockDuration: 600_000, lockRenewTime: 20 },
    inputs: () => feeds,
    outputs: () => null,
  });
  t.after(() => running.close());
  const renewals = new Map();
  running.worker.on('locksRenewed', ({ jobIds }) => jobIds.forEach((id) => renewals.set(id, (renewals.get(id) ?? 0) + 1)));
  const jobs = await queue.addBulk(Array.from({ length: 2 }, () => ({ name: 'slow', data: {} })));
  await until(async () => (await queue.getCompletedCount()) === jobs.length, 'all jobs are done');
  for (const { id } of jobs) assert.ok(renewals.get(id) >= 3, `lock ${id} was renewed ${renewals.get(id) ?? 0} times`);
});

test('what does not fit the model fails once, and is not tried again', async (t) => {
  const { name, queue } = await queueOf(t);
  const running = await worker(name, {
    connection,
    model: DIGITS,
    log: false,
    inputs: ({ data: { width } }) => ({ pixels: { data: new Float32Array(8 * width), shape: [1, 1, 8, width] } }),
    outputs: () => null,
  });
  t.after(() => running.close());
  const job = await queue.add('wrong', { width: 9 }, { attempts: 5 });
  await queue.add('right', { width: 8 });
  await until(async () => (await queue.getFailedCount()) === 1 && (await queue.getCompletedCount()) === 1, 'both jobs have ended');
  const { failedReason, attemptsMade } = defined(await queue.getJob(defined(job.id)));
  assert.equal(attemptsMade, 1);
  assert.match(failedReason, /"pixels" is \[1, 1, 8, 9\], expected \[-1, 1, 8, 8\]/);
});

test('what fails for another reason is tried again', async (t) => {
  const { name, queue } = await queueOf(t);
  let tries = 0;
  const running = await worker(name, {
    connection,
    model: DIGITS,
    log: false,
    inputs() {
      if ((tries += 1) < 3) throw new Error('the store does not answer');
      return { pixels: { data: new Float32Array(64), shape: [1, 1, 8, 8] } };
    },
    outputs: () => 'stored',
  });
  t.after(() => running.close());
  const job = await queue.add('retry', {}, { attempts: 5 });
  await until(async () => (await queue.getCompletedCount()) === 1, 'the job has ended');
  assert.equal(defined(await queue.getJob(defined(job.id))).returnvalue, 'stored');
  assert.equal(tries, 3);
});

test('a model is what the server takes for one: its newest version, one of them, a file, with its settings', async (t) => {
  const broken = Buffer.from('no model');
  const files = { 'digits/1/model.onnx': broken, 'digits/2/any.onnx': DIGITS, 'digits/10/own.onnx': DIGITS, 'digits/model.json': { maxBatch: 1 } };
  const repository = repositoryOf(t, { ...files, 'other/1/model.onnx': DIGITS, 'other/model.json': { kind: 'embeddings' } });
  const { name, queue } = await queueOf(t);
  const work = {
    connection,
    log: /** @type {const} */ (false),
    inputs: () => ({ pixels: { data: new Float32Array(64), shape: [1, 1, 8, 8] } }),
    outputs: () => 'stored',
  };
  for (const [i, model] of ['digits', 'digits/2', 'digits/2/any.onnx'].entries()) {
    const running = await worker(name, { ...work, model: path.join(repository, model) });
    await queue.add('digit', {});
    await until(async () => (await queue.getCompletedCount()) === i + 1, `the job of ${model} is done`);
    await running.close();
  }
  // The settings beside the versions count, and those of the program count more.
  const other = path.join(repository, 'other');
  await assert.rejects(worker(name, { ...work, model: other }), /tokenizer\.json/);
  await (await worker(name, { ...work, model: other, config: { kind: 'tensors' } })).close();
  await assert.rejects(worker(name, { ...work, model: path.join(repository, 'digits/1') }));
});

test('a model that is not there is said at once', async () => {
  assert.equal(existsSync('nowhere'), false);
  await assert.rejects(worker('x', { connection, model: 'nowhere', inputs: () => ({}), outputs: () => null }), /nowhere/);
});

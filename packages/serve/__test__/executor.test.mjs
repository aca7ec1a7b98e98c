import assert from 'node:assert/strict';
import test from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Executor } from '../lib/batcher/executor.js';
import { Places, Turns } from '../lib/batcher/turns.js';

const LIMITS = { maxBatch: 4, maxDelayMs: 0, maxQueue: 100, maxQueueMs: 1000 };

/**
 * An executor whose batches end when the test says so.
 * @param {{ run?: (inputs: number[]) => Promise<number[]>, limits?: object }} [options]
 */
function executorOf({ run, limits = {} } = {}) {
  const batches = [];
  const observed = { requests: /** @type {any[]} */ ([]), batches: /** @type {any[]} */ ([]), failed: /** @type {number[]} */ ([]) };
  const wait = (inputs) => new Promise((resolve, reject) => batches.push({ inputs, resolve: () => resolve(inputs.map((input) => input * 10)), reject }));
  const observer = {
    request: (request) => observed.requests.push(request),
    batch: (batch) => observed.batches.push(batch),
    failed: (_, requests) => observed.failed.push(requests),
  };
  const executor = new Executor({ limits: { ...LIMITS, ...limits }, run: run ?? wait, turns: new Turns(new Places(2)), observer });
  const submit = (input, options) => executor.submit(input, { key: 'a', rows: 1 }, options);
  return { executor, submit, batches, observed };
}

test('one batch at a time, and what comes meanwhile is joined', async () => {
  const { submit, batches, observed } = executorOf();
  const first = submit(1);
  await turn();
  const others = [2, 3, 4].map((input) => submit(input));
  await turn();
  assert.deepEqual(
    batches.map(({ inputs }) => inputs),
    [[1]],
  );
  batches[0].resolve();
  assert.equal(await first, 10);
  await turn();
  assert.deepEqual(batches[1].inputs, [2, 3, 4]);
  batches[1].resolve();
  assert.deepEqual(await Promise.all(others), [20, 30, 40]);
  assert.deepEqual(
    observed.batches.map(({ rows }) => rows),
    [1, 3],
  );
  assert.equal(observed.requests.filter(({ reason }) => reason === null).length, 4);
});

test('a request that fails does not fail those it was joined with', async () => {
  const run = async (inputs) => {
    if (inputs.includes(2)) throw Object.assign(new TypeError('2 is none'), { code: 'ERR_WEBNN_INDEX' });
    return inputs.map((input) => input * 10);
  };
  const { submit, observed } = executorOf({ run });
  const results = await Promise.allSettled([1, 2, 3].map((input) => submit(input)));
  assert.deepEqual(
    results.map((result) => (result.status === 'fulfilled' ? result.value : result.reason.kind)),
    [10, 'invalid', 30],
  );
  assert.deepEqual(observed.failed, [2], 'the first was alone');
});

test('what the server is at fault for says nothing to the caller', async () => {
  const { submit } = executorOf({ run: async () => Promise.reject(new Error('a secret path')) });
  await assert.rejects(submit(1), ({ kind, message, cause }) => kind === 'internal' && !message.includes('secret') && /secret/.test(cause.message));
});

test('a caller that is gone leaves the queue', async () => {
  const { submit, batches } = executorOf();
  const first = submit(1);
  await turn();
  const controller = new AbortController();
  const second = submit(2, { signal: controller.signal });
  controller.abort();
  await assert.rejects(second, { kind: 'canceled' });
  await assert.rejects(submit(3, { signal: AbortSignal.abort() }), { kind: 'canceled' });
  batches[0].resolve();
  assert.equal(await first, 10);
  await turn();
  assert.equal(batches.length, 1);
});

test('a deadline that is over in the queue is not computed', async () => {
  const { submit, batches } = executorOf();
  const first = submit(1);
  await turn();
  const second = submit(2, { deadline: performance.now() + 1 });
  await new Promise((resolve) => setTimeout(resolve, 5));
  batches[0].resolve();
  await first;
  await assert.rejects(second, { kind: 'deadline' });
  assert.equal(batches.length, 1);
});

test('drain ends what waits and takes no more', async () => {
  const { executor, submit, batches } = executorOf({ limits: { maxBatch: 1 } });
  const both = [submit(1), submit(2)];
  await turn();
  let isDrained = false;
  const drained = executor.drain().then(() => {
    isDrained = true;
  });
  await assert.rejects(submit(3), { kind: 'unavailable' });
  batches[0].resolve();
  await both[0];
  await turn();
  assert.equal(isDrained, false);
  batches[1].resolve();
  await both[1];
  await drained;
});

test('drain of an idle executor ends at once', async () => {
  await executorOf().executor.drain();
});

test('long computations leave a place for short ones', async () => {
  const places = new Places(2);
  const leave = await places.enter(true);
  const order = [];
  const long = places.enter(true).then((done) => (order.push('long'), done));
  const short = places.enter(false).then((done) => (order.push('short'), done));
  (await short)();
  assert.deepEqual(order, ['short']);
  leave();
  (await long)();
  assert.deepEqual(order, ['short', 'long']);
});

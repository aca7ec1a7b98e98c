import assert from 'node:assert/strict';
import test from 'node:test';
import { Batcher } from '../lib/batcher/batcher.js';

const LIMITS = { maxBatch: 4, maxDelayMs: 0, maxQueue: 8, maxQueueMs: 100 };
const item = (fields = {}) => ({ key: 'a', rows: 1, ...fields });

/** A batcher with these items, enqueued at 0. */
function batcherOf(items, limits = {}) {
  const batcher = new Batcher({ ...LIMITS, ...limits });
  for (const entry of items) batcher.enqueue(entry, 0);
  return batcher;
}

test('joins what waits, up to the rows of a batch, in the order of arrival', () => {
  const items = [item(), item({ rows: 2 }), item(), item()];
  const batcher = batcherOf(items);
  assert.deepEqual(batcher.next(0).batch, items.slice(0, 3));
  assert.deepEqual(batcher.next(0).batch, items.slice(3));
  assert.deepEqual(batcher.next(0), { batch: [], expired: [], wakeAt: undefined });
});

test('a request that does not fit lets smaller ones behind it join', () => {
  const items = [item({ rows: 2 }), item({ rows: 3 }), item({ rows: 2 })];
  const batcher = batcherOf(items);
  assert.deepEqual(batcher.next(0).batch, [items[0], items[2]]);
  assert.deepEqual(batcher.next(0).batch, [items[1]]);
});

test('a request larger than a batch is computed alone', () => {
  const [large, small] = [item({ rows: 9 }), item()];
  const batcher = batcherOf([large, small]);
  assert.deepEqual(batcher.next(0).batch, [large]);
  assert.deepEqual(batcher.next(0).batch, [small]);
});

test('joins only what has the same key', () => {
  const items = [item(), item({ key: 'b' }), item()];
  const batcher = batcherOf(items);
  assert.deepEqual(batcher.next(0).batch, [items[0], items[2]]);
  assert.deepEqual(batcher.next(0).batch, [items[1]]);
});

test('joins the nearest lengths, with at most a quarter of padding', () => {
  const items = [10, 100, 12, 11, 9].map((length) => item({ length }));
  const batcher = batcherOf(items);
  assert.deepEqual(
    batcher.next(0).batch.map(({ length }) => length),
    [10, 11, 9, 12],
  );
  assert.deepEqual(batcher.next(0).batch, [items[1]]);
  const far = batcherOf([item({ length: 3 }), item({ length: 7 })]);
  assert.equal(far.next(0).batch.length, 1, '4 of 14 would be padding');
});

test('with a delay, the first waits for others until its time is over or the batch is full', () => {
  const batcher = batcherOf([item(), item()], { maxDelayMs: 5 });
  assert.deepEqual(batcher.next(3), { batch: [], expired: [], wakeAt: 5 });
  assert.equal(batcher.length, 2);
  assert.equal(batcher.next(5).batch.length, 2);
  for (let i = 0; i < 4; i++) batcher.enqueue(item(), 6);
  assert.equal(batcher.next(6).batch.length, 4);
});

test('refuses beyond the length of the queue', () => {
  const batcher = batcherOf(Array.from({ length: 8 }, () => item()));
  assert.throws(() => batcher.enqueue(item(), 0), { kind: 'overloaded', message: /8 requests wait/ });
});

test('refuses who would wait longer than allowed, by the time of late batches', () => {
  const batcher = batcherOf([item(), item()]);
  batcher.next(0);
  batcher.learn(2, 100);
  assert.equal(batcher.expectedWait(200), 0);
  for (let i = 0; i < 2; i++) batcher.enqueue(item(), 200);
  assert.equal(batcher.expectedWait(200), 100);
  batcher.enqueue(item(), 200);
  assert.throws(() => batcher.enqueue(item(), 200), { kind: 'overloaded', retryAfterMs: 150 });
});

test('what is computed counts as waiting time until it should have ended', () => {
  const batcher = batcherOf([item()]);
  batcher.next(0);
  batcher.learn(1, 40);
  batcher.enqueue(item(), 100);
  batcher.next(100);
  assert.equal(batcher.expectedWait(110), 30);
  assert.equal(batcher.expectedWait(150), 0);
});

test('a deadline that cannot be met is refused, and one that is over leaves the queue', () => {
  const batcher = batcherOf([item()]);
  batcher.next(0);
  batcher.learn(1, 40);
  batcher.enqueue(item(), 100);
  assert.throws(() => batcher.enqueue(item({ deadline: 139 }), 100), { kind: 'deadline' });
  const late = item({ deadline: 150 });
  batcher.enqueue(late, 100);
  assert.deepEqual(batcher.next(150).expired, [late]);
});

test('what is canceled leaves the queue and its rows', () => {
  const [first, second] = [item(), item({ rows: 3 })];
  const batcher = batcherOf([first, second]);
  assert.equal(batcher.cancel(second), true);
  assert.equal(batcher.cancel(second), false);
  assert.deepEqual(batcher.next(0).batch, [first]);
  assert.equal(batcher.cancel(first), false, 'it is computed already');
});

test('one batch during which the process stood still does not refuse what comes then', () => {
  const batcher = batcherOf([item()]);
  batcher.next(0);
  batcher.learn(1, 10);
  batcher.learn(1, 100_000);
  for (let i = 0; i < 3; i++) batcher.enqueue(item(), 200_000);
  assert.equal(batcher.expectedWait(200_000), 3 * 16);
});

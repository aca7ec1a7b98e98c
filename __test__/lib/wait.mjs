/** Waits for events that nothing announces. */

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

/** Maximum wait of a test for a process or a condition, in milliseconds: other programs may occupy all cores. */
export const PATIENCE = 120_000;

/** Milliseconds between two checks of a condition. */
const INTERVAL = 5;

/**
 * Waits until a condition holds.
 *
 * @param {() => unknown} condition
 * @param {string} what is waited for, for the message
 * @param {number} [patience] milliseconds after which the test fails
 */
export async function until(condition, what, patience = PATIENCE) {
  const deadline = performance.now() + patience;
  while (!(await condition())) {
    assert.ok(performance.now() < deadline, `after ${patience / 1000} s still not: ${what}`);
    await sleep(INTERVAL);
  }
}

/** Collects the whole heap. */
export function collect() {
  assert.ok(globalThis.gc, 'there is no gc(), expected node --expose-gc');
  globalThis.gc();
}

/** One turn of the event loop. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Calls the registered function once its object is collected. */
const dropped = new FinalizationRegistry((/** @type {() => void} */ call) => call());

/**
 * Collects everything that is unreachable, and waits for finalizers: when this returns, the finalizer of an object
 * dropped here has run, and so have those of everything dropped before.
 */
export async function collectGarbage() {
  let isCollected = false;
  dropped.register({}, () => {
    isCollected = true;
  });
  await collectUntil(() => isCollected, 'an object that was dropped is collected');
  // Native finalizers run a turn of the event loop after those of JavaScript.
  await turn();
  await turn();
}

/**
 * Collects garbage until a condition holds: finalizers run some turns of the event loop after a collection.
 *
 * @param {() => unknown} condition
 * @param {string} what is waited for, for the message
 */
export const collectUntil = (condition, what) =>
  until(() => {
    collect();
    return condition();
  }, what);

/** CPU time of this process, in microseconds. */
function processorTime() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/**
 * Waits until other threads of this process compute, which nothing else reveals.
 *
 * @param {number} milliseconds of processor time that they have used since the call
 */
export async function untilBusy(milliseconds) {
  const start = processorTime();
  await until(() => processorTime() - start >= milliseconds * 1000, `${milliseconds} ms of a processor are used`);
}

/** How long an idle process is watched, in milliseconds. */
const WATCHED = 300;

/** Maximum share of a CPU that an idle process uses, for timers and the garbage collector. */
const IDLE = 0.1;

/** Waits until the process uses almost no CPU time for a while. */
export const untilIdle = () =>
  until(async () => {
    const [start, time] = [performance.now(), processorTime()];
    await sleep(WATCHED);
    return processorTime() - time < IDLE * 1000 * (performance.now() - start);
  }, 'the process is idle');

/**
 * What `lost` of a context says. Waiting for it keeps no process alive, so that a timer must.
 *
 * @param {import('../../index.js').MLContext} context
 */
export async function lossOf(context) {
  let timer;
  const patience = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error('the context is not lost')), PATIENCE);
  });
  try {
    return await Promise.race([context.lost, patience]);
  } finally {
    clearTimeout(timer);
  }
}

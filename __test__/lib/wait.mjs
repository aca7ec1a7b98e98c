/** Waiting for events that nothing announces. */

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds that a test waits for a process or a condition at most: other programs may hold all cores. */
export const PATIENCE = 120_000;

/** Milliseconds between two looks at a condition. */
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

/** A collection of the whole heap. */
export function collect() {
  assert.ok(globalThis.gc, 'there is no gc(), expected node --expose-gc');
  globalThis.gc();
}

/** A turn of the event loop. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Calls what it was given with an object once that is collected. */
const dropped = new FinalizationRegistry((/** @type {() => void} */ call) => call());

/**
 * Collects what nobody has any more, its finalizers included: that of an object which is dropped here has run, and so have
 * those of everything that was dropped before.
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

/** Microseconds of processor time that this process has used. */
function processorTime() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/**
 * Waits until other threads of this process compute, which nothing else tells.
 *
 * @param {number} milliseconds of processor time that they have used since the call
 */
export async function untilBusy(milliseconds) {
  const start = processorTime();
  await until(() => processorTime() - start >= milliseconds * 1000, `${milliseconds} ms of a processor are used`);
}

/** Milliseconds in which an idle process is watched. */
const WATCHED = 300;

/** The part of a processor that an idle process may take: timers and the collector of garbage. */
const IDLE = 0.1;

/** Waits until the process uses next to nothing of a processor for a while. */
export const untilIdle = () =>
  until(async () => {
    const [start, time] = [performance.now(), processorTime()];
    await sleep(WATCHED);
    return processorTime() - time < IDLE * 1000 * (performance.now() - start);
  }, 'the process is idle');

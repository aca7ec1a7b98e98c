// Which of the requests that wait are computed together. A state machine without timers and promises: it is told the time.

import { ServeError } from '../errors.js';
import { recent } from './recent.js';

/**
 * A request that waits.
 * @typedef {object} Item
 * @property {string} key only requests with equal keys are joined
 * @property {number} rows how much of a batch it is
 * @property {number} [length] of its text: those of a batch are padded to the longest
 * @property {number} [deadline] in milliseconds of the clock; afterwards nobody waits for the answer
 */

/**
 * @typedef {object} Limits
 * @property {number} maxBatch rows of a batch
 * @property {number} maxDelayMs how long the first request waits for others to join. 0 joins what waits already
 * @property {number} maxQueue requests that wait
 * @property {number} maxQueueMs a request that would wait longer is refused
 */

/**
 * Refuses a request that would wait too long.
 * @param {Pick<Limits, 'maxQueue' | 'maxQueueMs'>} limits
 * @param {{ waiting: number, wait: number, deadline?: number, now: number }} state requests that wait, and how long a new one
 *   would
 * @throws {ServeError} `overloaded`, or `deadline` if nobody would wait for the answer any more
 */
export function checkRoom({ maxQueue, maxQueueMs }, { waiting, wait, deadline, now }) {
  if (deadline !== undefined && now + wait > deadline) {
    throw new ServeError('deadline', `the request would wait ${Math.ceil(wait)} ms, and its deadline is in ${Math.max(0, Math.floor(deadline - now))} ms`);
  }
  if (waiting >= maxQueue || wait > maxQueueMs) {
    const message = `the server is busy: ${waiting} requests wait for this model, a new one would wait ${Math.ceil(wait)} ms`;
    throw new ServeError('overloaded', message, { retryAfterMs: wait });
  }
}

/** How much of a batch may be padding: it is computed like any other row. */
const MAX_PADDING = 0.25;

/** One batch that took many times as long, because the whole process stood still, must not refuse all that come then. */
const MAX_RISE = 4;

/** @template {Item} T */
export class Batcher {
  #limits;
  /** In the order of their arrival. @type {{ item: T, since: number }[]} */
  #waiting = [];
  #waitingRows = 0;
  /** Milliseconds of a row, of late; unknown until a batch has ended. @type {number | undefined} */
  #msPerRow;
  /** When what is computed now will have ended, as far as is known. */
  #busyUntil = 0;

  /** @param {Limits} limits */
  constructor(limits) {
    this.#limits = limits;
  }

  /** Requests that wait. */
  get length() {
    return this.#waiting.length;
  }

  /**
   * How long a request that comes now will wait, in milliseconds.
   * @param {number} now
   */
  expectedWait(now) {
    return Math.max(0, this.#busyUntil - now) + this.#waitingRows * (this.#msPerRow ?? 0);
  }

  /**
   * Whether there is room for a request: a caller hears it before the server does anything for it.
   * @param {number | undefined} deadline
   * @param {number} now
   * @throws {ServeError} as {@link checkRoom}
   */
  admit(deadline, now) {
    checkRoom(this.#limits, { waiting: this.#waiting.length, wait: this.expectedWait(now), deadline, now });
  }

  /**
   * Takes a request into the queue.
   * @param {T} item
   * @param {number} now
   * @throws {ServeError} as `admit()`
   */
  enqueue(item, now) {
    this.admit(item.deadline, now);
    this.#waiting.push({ item, since: now });
    this.#waitingRows += item.rows;
  }

  /**
   * Takes a request out of the queue.
   * @param {T} item
   * @returns {boolean} whether it still waited
   */
  cancel(item) {
    const index = this.#waiting.findIndex((entry) => entry.item === item);
    if (index === -1) return false;
    this.#waiting.splice(index, 1);
    this.#waitingRows -= item.rows;
    return true;
  }

  /**
   * What to compute next, which leaves the queue.
   * @param {number} now
   * @returns {{ batch: T[], expired: T[], wakeAt: number | undefined }} requests to join, those whose deadline is over, and
   *   when to ask again if the batch is empty because others may join
   */
  next(now) {
    const expired = this.#waiting.filter(({ item }) => item.deadline !== undefined && item.deadline <= now).map(({ item }) => item);
    for (const item of expired) this.cancel(item);
    if (this.#waiting.length === 0) return { batch: [], expired, wakeAt: undefined };
    const batch = this.#join();
    const { maxBatch, maxDelayMs } = this.#limits;
    const wakeAt = this.#waiting[0].since + maxDelayMs;
    const rows = batch.reduce((sum, item) => sum + item.rows, 0);
    if (rows < maxBatch && now < wakeAt) return { batch: [], expired, wakeAt };
    for (const item of batch) this.cancel(item);
    this.#busyUntil = now + rows * (this.#msPerRow ?? 0);
    return { batch, expired, wakeAt: undefined };
  }

  /** The request that waits longest, and others like it: those with the nearest lengths first. */
  #join() {
    const [{ item: first }] = this.#waiting;
    const lengthOf = (/** @type {T} */ item) => item.length ?? 0;
    const others = this.#waiting.slice(1).filter(({ item }) => item.key === first.key);
    if (first.length !== undefined) others.sort((a, b) => Math.abs(lengthOf(a.item) - lengthOf(first)) - Math.abs(lengthOf(b.item) - lengthOf(first)));
    const batch = [first];
    let rows = first.rows;
    let longest = lengthOf(first);
    let sum = first.rows * longest;
    for (const { item } of others) {
      const size = Math.max(longest, lengthOf(item));
      const padded = (rows + item.rows) * size;
      const used = sum + item.rows * lengthOf(item);
      if (rows + item.rows > this.#limits.maxBatch || padded * (1 - MAX_PADDING) > used) continue;
      batch.push(item);
      [rows, longest, sum] = [rows + item.rows, size, used];
    }
    return batch;
  }

  /**
   * Learns from a batch that has ended.
   * @param {number} rows
   * @param {number} ms
   */
  learn(rows, ms) {
    const own = ms / rows;
    this.#msPerRow = recent(this.#msPerRow, Math.min(own, MAX_RISE * (this.#msPerRow ?? own)));
    this.#busyUntil = 0;
  }
}

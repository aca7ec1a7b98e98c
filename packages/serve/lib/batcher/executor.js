// Runs the batches of a model, and gives each request its answer.

import { ServeError, toServeError } from '../errors.js';
import { Batcher } from './batcher.js';

/** Why a request failed, in Triton's words. @typedef {'REJECTED' | 'CANCELED' | 'BACKEND' | 'OTHER'} Reason */

/**
 * Counts and times of a model, in milliseconds; see metrics/.
 * @typedef {object} Observer
 * @property {(request: { reason: Reason | null, rows: number, queueMs: number, computeMs: number, totalMs: number }) => void} request
 *   why it failed, or null
 * @property {(batch: { rows: number, computeMs: number }) => void} batch
 * @property {(error: unknown, requests: number) => void} failed a batch, whose requests are computed one by one then
 * @property {import('./sequences.js').TextObserver} texts of models that generate them
 */

/**
 * @template Input
 * @template Output
 * @typedef {object} Job
 * @property {Input} input
 * @property {string} key
 * @property {number} rows
 * @property {number} [length]
 * @property {number} [deadline]
 * @property {number} since
 * @property {import('../departure.js').Signal} [signal]
 * @property {() => void} cancel
 * @property {(output: Output) => void} resolve
 * @property {(error: ServeError) => void} reject
 */

/**
 * What a caller wants beside the answer.
 * @typedef {object} CallOptions
 * @property {import('../departure.js').Signal} [signal] the caller is gone
 * @property {number} [deadline] in milliseconds of performance.now(): then the caller is gone
 */

/** @type {Partial<Record<import('../errors.js').ErrorKind, Reason>>} */
const REASONS = { overloaded: 'REJECTED', unavailable: 'REJECTED', deadline: 'REJECTED', canceled: 'CANCELED', internal: 'BACKEND' };

/**
 * Why a request failed.
 * @param {ServeError} error
 * @returns {Reason}
 */
export const reasonOf = ({ kind }) => REASONS[kind] ?? 'OTHER';

/**
 * A request that was not computed.
 * @param {ServeError} error
 */
const refused = (error) => ({ reason: reasonOf(error), rows: 0, queueMs: 0, computeMs: 0, totalMs: 0 });

/**
 * Counts a request that a check refuses.
 * @template T
 * @param {Pick<Observer, 'request'>} observer
 * @param {() => T} check
 * @returns {T}
 */
export function counted(observer, check) {
  try {
    return check();
  } catch (error) {
    observer.request(refused(toServeError(error)));
    throw error;
  }
}

const clock = () => performance.now();

/**
 * One batch at a time: while it is computed, the next one gathers.
 * @template Input
 * @template Output
 */
export class Executor {
  /** @type {Batcher<Job<Input, Output>>} */
  #batcher;
  #run;
  #turns;
  #observer;
  #isRunning = false;
  #isScheduled = false;
  /** Requests of the last batch. */
  #lastRequests = 0;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;
  #isDraining = false;
  /** @type {(() => void)[]} */
  #idle = [];

  /**
   * @param {object} options
   * @param {import('./batcher.js').Limits} options.limits
   * @param {(inputs: Input[]) => Promise<Output[]>} options.run computes a batch
   * @param {import('./turns.js').Turns} options.turns
   * @param {Pick<Observer, 'batch' | 'failed' | 'request'>} options.observer
   */
  constructor({ limits, run, turns, observer }) {
    this.#batcher = new Batcher(limits);
    this.#run = run;
    this.#turns = turns;
    this.#observer = observer;
  }

  /** Requests that wait. */
  get waiting() {
    return this.#batcher.length;
  }

  /**
   * Refuses a request that there is no room for, before anything is done for it.
   * @param {CallOptions} [options]
   * @throws {ServeError}
   */
  admit({ deadline } = {}) {
    counted(this.#observer, () => {
      if (this.#isDraining) throw new ServeError('unavailable', 'the model is being unloaded');
      this.#batcher.admit(deadline, clock());
    });
  }

  /**
   * Computes an input, alone or with others.
   * @param {Input} input
   * @param {{ key: string, rows: number, length?: number }} shape as {@link import('./batcher.js').Item} has it
   * @param {CallOptions} [options]
   * @returns {Promise<Output>}
   * @throws {ServeError}
   */
  submit(input, shape, { signal, deadline } = {}) {
    return new Promise((resolve, reject) => {
      const since = clock();
      const cancel = () => {
        if (this.#batcher.cancel(job)) this.#fail(job, new ServeError('canceled', 'the client is gone'), clock(), 0);
        this.#settle();
      };
      /** @type {Job<Input, Output>} */
      const job = { ...shape, input, deadline, since, signal, cancel, resolve, reject };
      counted(this.#observer, () => {
        if (this.#isDraining) throw new ServeError('unavailable', 'the model is being unloaded');
        if (signal?.aborted) throw new ServeError('canceled', 'the client is gone');
        this.#batcher.enqueue(job, since);
      });
      signal?.addEventListener('abort', cancel);
      this.#schedule();
    });
  }

  /**
   * Looks at the queue when all that the sockets have now was read: it can be joined. Where requests come one by one, none will
   * join, and waiting for it takes 30 us.
   */
  #schedule() {
    if (this.#isScheduled || this.#isRunning) return;
    if (this.#lastRequests <= 1) return this.#start();
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#start();
    });
  }

  #start() {
    if (this.#isRunning) return;
    clearTimeout(this.#timer);
    const now = clock();
    const { batch, expired, wakeAt } = this.#batcher.next(now);
    for (const job of expired)
      this.#fail(job, new ServeError('deadline', `the deadline was over after ${Math.round(now - job.since)} ms in the queue`), now, 0);
    if (wakeAt !== undefined) this.#timer = setTimeout(() => this.#start(), Math.max(0, wakeAt - now));
    if (batch.length === 0) return this.#settle();
    this.#lastRequests = batch.length;
    this.#isRunning = true;
    void this.#compute(batch).then(() => {
      this.#isRunning = false;
      this.#start();
    });
  }

  /**
   * Computes a batch and answers; it does not fail.
   * @param {Job<Input, Output>[]} batch
   */
  async #compute(batch) {
    const rows = batch.reduce((sum, job) => sum + job.rows, 0);
    const run = () => this.#run(batch.map(({ input }) => input));
    try {
      const { result, start, ms } = await this.#turns.take(run);
      this.#batcher.learn(rows, ms);
      this.#observer.batch({ rows, computeMs: ms });
      batch.forEach((job, i) => {
        job.signal?.removeEventListener('abort', job.cancel);
        job.resolve(result[i]);
        this.#observe(job, null, start, ms);
      });
    } catch (error) {
      // One request can spoil a batch: then each has to show that it was not the one.
      if (batch.length > 1) {
        this.#observer.failed(error, batch.length);
        for (const job of batch) await this.#compute([job]);
      } else {
        this.#fail(batch[0], toServeError(error), clock(), 0);
      }
    }
  }

  /**
   * @param {Job<Input, Output>} job
   * @param {ServeError} error
   * @param {number} start
   * @param {number} computeMs
   */
  #fail(job, error, start, computeMs) {
    this.#observe(job, reasonOf(error), start, computeMs);
    job.signal?.removeEventListener('abort', job.cancel);
    job.reject(error);
  }

  /**
   * @param {Job<Input, Output>} job
   * @param {Reason | null} reason
   * @param {number} start
   * @param {number} computeMs
   */
  #observe({ rows, since }, reason, start, computeMs) {
    this.#observer.request({ reason, rows, queueMs: start - since, computeMs, totalMs: clock() - since });
  }

  #settle() {
    if (this.#isRunning || this.#batcher.length > 0) return;
    // What it would look at was canceled; it must not keep the process.
    clearTimeout(this.#timer);
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /**
   * Takes no more requests, and ends those that wait.
   * @returns {Promise<void>}
   */
  async drain() {
    this.#isDraining = true;
    if (!this.#isRunning && this.#batcher.length === 0) return;
    await new Promise((resolve) => this.#idle.push(() => resolve(undefined)));
  }
}

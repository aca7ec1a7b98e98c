// Several processes behind one port: each loads the models for itself. For machines with more cores than one computation can
// use; one process uses all cores already.

import cluster from 'node:cluster';
import { once } from 'node:events';
import { createMetricsHttp } from './http/metrics.js';
import { listening } from './listening.js';
import { processMetrics } from './metrics/processes.js';
import { OptionError } from './options.js';

/** Messages of a process to the first one: that it serves, and why it cannot serve. */
export const READY = 'webnn-serve:ready';
export const FAILED = 'webnn-serve:failed';

/** So many starts of a process in a row that end before it is ready end the program. */
const MOST_STARTS = 5;

/** Pause before a start after one that failed. Each further one takes twice as long: a full disk or an absent volume needs time. */
const PAUSE_MS = 250;

/** A process that has not ended so long after its drain hangs. */
const PATIENCE_MS = 5000;

/** A place for a process, and how often in a row it was not filled. @typedef {{ failures: number, reason?: string }} Slot */

/** Processes that run this program again. One that ends by accident is replaced. */
class Processes {
  #count;
  #limits;
  #log;
  /** Those that serve. @type {Set<import('node:cluster').Worker>} */
  #ready = new Set();
  /** @type {Map<import('node:cluster').Worker, Slot>} */
  #slots = new Map();
  /** Starts that wait, and bounds of those that run. @type {Set<NodeJS.Timeout>} */
  #timers = new Set();
  /** @type {Promise<void> | undefined} */
  #closed;
  /** @type {import('fastify').FastifyInstance | undefined} */
  #metrics;
  /** Why the program ends, unless by a signal. @type {Error | undefined} */
  #failure;
  /** @type {(error: Error) => void} */
  #reject = () => undefined;
  /** @type {() => void} */
  #resolve = () => undefined;
  /** Settled when all have ended: rejected if they could not start. @type {Promise<void>} */
  ended = new Promise((resolve, reject) => {
    this.#resolve = resolve;
    this.#reject = reject;
  });

  /** @param {{ count: number, limits: import('./serve.js').RequestLimits, log: any }} options */
  constructor({ count, limits, log }) {
    this.#count = count;
    this.#limits = limits;
    this.#log = log;
    cluster.on('message', (worker, message) => this.#receive(worker, message));
    cluster.on('exit', (worker, code, signal) => this.#leave(worker, code, signal));
    for (let i = 0; i < count; i++) this.#start({ failures: 0 });
  }

  /**
   * Serves the metrics of all processes together: early, with those of the processes that are ready.
   * @param {{ host: string, port: number }} address
   */
  async listen({ host, port }) {
    this.#metrics = createMetricsHttp(processMetrics(this.#ready), { isReady: () => this.#ready.size > 0 && this.#closed === undefined, log: this.#log });
    try {
      await listening({ name: 'metrics', host, port }, async () => this.#metrics?.listen({ host, port }));
    } catch (error) {
      await this.#fail(/** @type {Error} */ (error));
    }
  }

  /** @param {Slot} slot */
  #start(slot) {
    const worker = cluster.fork();
    this.#slots.set(worker, slot);
    this.#log.info({ process: worker.process.pid }, 'process starts');
    const timer = this.#later(this.#limits.startMs, () => {
      this.#log.error({ process: worker.process.pid, ms: this.#limits.startMs }, 'process hangs in its start');
      worker.process.kill('SIGKILL');
    });
    const stop = () => clearTimeout(timer);
    worker.once('exit', stop).on('message', ({ type }) => type === READY && stop());
  }

  /**
   * @param {number} ms
   * @param {() => void} task
   */
  #later(ms, task) {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      task();
    }, ms);
    this.#timers.add(timer);
    return timer;
  }

  /**
   * @param {import('node:cluster').Worker} worker
   * @param {any} message
   */
  #receive(worker, message) {
    const slot = this.#slots.get(worker);
    if (slot === undefined) return;
    if (message?.type === FAILED) slot.reason = message.message;
    if (message?.type !== READY) return;
    Object.assign(slot, { failures: 0, reason: undefined });
    this.#ready.add(worker);
    this.#log.info({ process: worker.process.pid, ready: this.#ready.size, processes: this.#count }, 'process ready');
  }

  /**
   * @param {import('node:cluster').Worker} worker
   * @param {number | null} code
   * @param {string | null} signal
   */
  #leave(worker, code, signal) {
    const slot = /** @type {Slot} */ (this.#slots.get(worker));
    this.#slots.delete(worker);
    const wasReady = this.#ready.delete(worker);
    if (this.#closed !== undefined) return;
    this.#log.error({ process: worker.process.pid, code, signal, ready: wasReady, reason: slot.reason }, 'process ended');
    if (wasReady) {
      this.#start(slot);
      return;
    }
    slot.failures += 1;
    if (slot.failures === MOST_STARTS) {
      const how = slot.reason ?? `a process ended ${MOST_STARTS} times before it was ready, the last time with ${signal ?? `exit code ${code}`}`;
      void this.#fail(Object.assign(new OptionError(how), { exitCode: code || 1 }));
      return;
    }
    const ms = PAUSE_MS * 2 ** (slot.failures - 1);
    this.#log.info({ ms, failures: slot.failures }, 'process starts again after a pause');
    this.#later(ms, () => this.#start(slot));
  }

  /** Ends all processes because of an error. @param {Error} error */
  #fail(error) {
    this.#failure ??= error;
    return this.close();
  }

  /** Ends all processes, whatever they do: those that serve finish what they have begun. */
  close() {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close() {
    for (const timer of this.#timers) clearTimeout(timer);
    await Promise.all(Array.from(this.#slots.keys(), (worker) => this.#end(worker)));
    const closed = this.#metrics?.close();
    // Connections on which nothing was asked would hold up the end.
    this.#metrics?.server.closeAllConnections();
    await closed;
    if (this.#failure === undefined) this.#resolve();
    else this.#reject(this.#failure);
  }

  /** @param {import('node:cluster').Worker} worker */
  async #end(worker) {
    const exit = once(worker, 'exit');
    worker.process.kill('SIGTERM');
    const timer = setTimeout(() => worker.process.kill('SIGKILL'), this.#limits.leaveMs + this.#limits.drainMs + PATIENCE_MS);
    await exit;
    clearTimeout(timer);
  }
}

/**
 * Starts processes that run this program again. Runs in the first process.
 * @param {object} options
 * @param {number} options.count
 * @param {string} options.host
 * @param {number} options.metrics port of the metrics of all processes together
 * @param {import('./serve.js').RequestLimits} options.limits
 * @param {any} options.log
 * @returns {{ close: () => Promise<void>, ended: Promise<void> }} `ended` is rejected if they cannot start
 */
export function startProcesses({ count, host, metrics: port, limits, log }) {
  const processes = new Processes({ count, limits, log });
  void processes.listen({ host, port });
  return { close: () => processes.close(), ended: processes.ended };
}

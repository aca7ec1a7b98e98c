// Several processes behind one port: each loads the models for itself. For machines with more cores than one computation can
// use; one process uses all cores already.

import cluster from 'node:cluster';
import { once } from 'node:events';
import { AggregatorRegistry, Registry } from 'prom-client';
import { createMetricsHttp } from './http/metrics.js';

/** A process that ends earlier than this after its start is not started again: it would end again. */
const SHORTEST_MS = 5000;

/**
 * Starts processes that run this program again, and starts another one where one ends by accident. Runs in the first process.
 * @param {object} options
 * @param {number} options.count
 * @param {string} options.host
 * @param {number | undefined} options.metrics port of the metrics of all processes together
 * @param {any} options.log
 * @returns {Promise<{ close: () => Promise<void>, failed: Promise<number> }>} when all serve; `failed` is the exit code of a
 *   process that could not start
 */
export async function startProcesses({ count, host, metrics: port, log }) {
  let isClosing = false;
  const start = () => {
    const started = performance.now();
    const worker = cluster.fork();
    worker.once('exit', (code, signal) => {
      if (isClosing) return;
      log.error({ process: worker.process.pid, code, signal }, 'process ended');
      if (performance.now() - started < SHORTEST_MS) fail(code ?? 1);
      else start();
    });
    return worker;
  };
  let fail = (/** @type {number} */ code) => {};
  /** @type {Promise<number>} */
  const failed = new Promise((resolve) => {
    fail = resolve;
  });
  const ready = Array.from({ length: count }, () => once(start(), 'message'));
  await Promise.race([Promise.all(ready), failed]);

  const metrics = new AggregatorRegistry();
  const app = port === undefined ? undefined : createMetricsHttp({ contentType: Registry.PROMETHEUS_CONTENT_TYPE, text: () => metrics.clusterMetrics() }, log);
  await app?.listen({ host, port });
  return {
    failed,
    async close() {
      isClosing = true;
      const workers = Object.values(cluster.workers ?? {}).flatMap((worker) => worker ?? []);
      const ended = workers.map((worker) => once(worker, 'exit'));
      for (const worker of workers) worker.kill('SIGTERM');
      await Promise.all(ended);
      await app?.close();
    },
  };
}

// The numbers of several processes together: the first one asks those that serve. prom-client's own way fails if a process does not answer,
// such as one that still loads its models.

import { AggregatorRegistry, Registry } from 'prom-client';

const QUESTION = 'webnn-serve:metrics';
const ANSWER = 'webnn-serve:numbers';

/** A process that computes on its thread for JavaScript answers late; one that hangs must not take the numbers of the others with it. */
const WAIT_MS = 2000;

let questions = 0;

/**
 * Answers the first process. Runs in the others.
 * @param {Registry} registry
 */
export function answerMetrics(registry) {
  process.on('message', async (/** @type {any} */ message) => {
    if (message?.type !== QUESTION) return;
    const numbers = await registry.getMetricsAsJSON();
    if (process.connected) process.send?.({ type: ANSWER, id: message.id, numbers });
  });
}

/**
 * @param {import('node:cluster').Worker} worker
 * @returns {Promise<any[]>} empty if it does not answer
 */
function ask(worker) {
  return new Promise((resolve) => {
    const id = (questions += 1);
    const done = (/** @type {any[]} */ numbers) => {
      clearTimeout(timer);
      worker.off('message', onMessage);
      worker.off('exit', onExit);
      resolve(numbers);
    };
    const onMessage = (/** @type {any} */ message) => {
      if (message?.type === ANSWER && message.id === id) done(message.numbers);
    };
    const onExit = () => done([]);
    const timer = setTimeout(onExit, WAIT_MS);
    worker.on('message', onMessage);
    worker.on('exit', onExit);
    if (worker.isConnected()) worker.send({ type: QUESTION, id }, (/** @type {Error | null} */ error) => error && onExit());
    else onExit();
  });
}

/**
 * The metrics of processes as one.
 * @param {Iterable<import('node:cluster').Worker>} workers those that serve
 */
export function processMetrics(workers) {
  return {
    contentType: Registry.PROMETHEUS_CONTENT_TYPE,
    text: async () => AggregatorRegistry.aggregate(await Promise.all(Array.from(workers, ask))).metrics(),
  };
}

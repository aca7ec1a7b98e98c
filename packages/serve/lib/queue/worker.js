// Jobs of a queue in Redis: BullMQ gives them out, a model computes them. Jobs carry references, never tensors: Redis holds
// each job in memory, and 800 KiB in a job make 150 jobs/s of 8,000.

import pino from 'pino';
import { Places, Turns } from '../batcher/turns.js';
import { ServeError, toServeError } from '../errors.js';
import { loadVersion } from '../models/load.js';
import { UNOBSERVED } from '../metrics/metrics.js';
import { checkConfig, DEFAULTS, readConfig } from '../registry/config.js';
import { findModel } from '../registry/repository.js';
import { tensorsOf, valuesOf } from './values.js';

/**
 * @typedef {object} WorkerOptions
 * @property {any} connection where Redis is, as BullMQ has it: `{ url }` or a client
 * @property {string} model a folder, of which the newest version is used, one of its versions, or an .onnx file
 * @property {(job: import('./bullmq.js').Job, signal?: AbortSignal) => Promise<Record<string, import('./values.js').Value>> | Record<string, import('./values.js').Value>} inputs
 *   of a job: reads what it refers to
 * @property {(job: import('./bullmq.js').Job, outputs: Record<string, import('./values.js').Output>) => unknown} outputs stores the
 *   result and returns what the job shall remember of it, in JSON. A job can run twice, when a worker dies: write under a
 *   temporary name and rename
 * @property {number} [batch] jobs at the same time, which are joined where the model allows it
 * @property {Partial<import('../registry/config.js').ModelConfig>} [config] of the model; it counts more than model.json
 * @property {Record<string, unknown>} [worker] further options of BullMQ's Worker
 * @property {import('pino').BaseLogger | false} [log]
 */

/** Jobs have waited in Redis: none is refused for the time that it waits here. */
const PATIENT = 2 ** 31 - 1;

/** BullMQ, which only those install who use it. */
async function importBullMq() {
  try {
    return await import('bullmq');
  } catch (cause) {
    throw new Error('worker() needs the package bullmq: npm install bullmq ioredis', { cause });
  }
}

/**
 * Takes jobs from a queue until it is closed.
 * @param {string} queue name of the queue
 * @param {WorkerOptions} options
 * @returns {Promise<{ worker: import('./bullmq.js').Worker, close: () => Promise<void> }>} `close` finishes the jobs that have begun
 * @throws {import('../registry/repository.js').RepositoryError} if there is no such model
 */
export async function worker(queue, { connection, model: location, inputs, outputs, batch = DEFAULTS.maxBatch, config = {}, worker: more = {}, log = pino() }) {
  const { Worker, UnrecoverableError } = await importBullMq();
  const {
    entries: [{ config: file, versions }],
  } = findModel(location);
  const patient = { maxQueue: batch, maxQueueMs: PATIENT, maxTextQueueMs: PATIENT };
  const settings = { ...(await readConfig(file, { maxBatch: batch })), ...patient, ...checkConfig(config, 'config') };
  const model = await loadVersion(versions[0].path, { config: settings, turns: new Turns(new Places()), observer: UNOBSERVED });
  if (log !== false) {
    for (const warning of model.warnings) log.warn({ model: location }, warning);
    log.info({ model: location, kind: model.kind, ...model.about }, 'model loaded');
  }

  const compute = async (/** @type {import('./bullmq.js').Job} */ job) => {
    const results = await model.infer({ inputs: tensorsOf(await inputs(job)), outputs: null });
    return outputs(job, valuesOf(results));
  };
  const jobs = new Worker(
    queue,
    async (job) => {
      try {
        return await compute(job);
      } catch (error) {
        const known = toServeError(error);
        // What does not fit the model will not fit it the next time.
        if (known.kind === 'invalid') throw new UnrecoverableError(known.message);
        throw error instanceof ServeError ? (error.cause ?? error) : error;
      }
    },
    { ...more, connection, concurrency: batch },
  );
  if (log !== false) {
    jobs.on('error', (err) => log.error({ queue, err }, 'queue failed'));
    jobs.on('failed', (job, err) => log.warn({ queue, job: job?.id, err }, 'job failed'));
    jobs.on('stalled', (job) => log.error({ queue, job }, 'job stalled: its lock was lost'));
  } else jobs.on('error', () => undefined);
  await jobs.waitUntilReady();

  /** @type {Promise<void> | undefined} */
  let closed;
  const close = async () => {
    await jobs.close();
    await model.drain();
    model.destroy();
  };
  return {
    worker: jobs,
    close() {
      closed ??= close();
      return closed;
    },
  };
}

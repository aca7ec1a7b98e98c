// Adds jobs to a queue in Redis, waits for their results and prints them. The worker runs in a process of its own.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Queue, QueueEvents } from 'bullmq';
import { connection, QUEUE } from './queue.mjs';

/** Milliseconds until a job counts as lost. */
const PATIENCE = 60_000;

/** @type {number[][][]} */
const pictures = JSON.parse(await readFile(new URL('pictures.json', import.meta.url), 'utf8'));
const worker = fork(fileURLToPath(new URL('worker.mjs', import.meta.url)));
const queue = new Queue(QUEUE, { connection });
const events = new QueueEvents(QUEUE, { connection });
await events.waitUntilReady();

// Jobs that have ended stay for a minute: whoever waits for one asks for it once more.
const options = { removeOnComplete: { age: 60 }, removeOnFail: { age: 60 } };
const jobs = await queue.addBulk(pictures.map((pixels) => ({ name: 'read', data: { pixels }, opts: options })));
const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, PATIENCE)));
results.forEach(({ digit, probability }, i) => console.log(`job ${i + 1}: a ${digit}, probability ${probability.toFixed(2)}`));

// A job that the worker refuses.
const refused = await queue.add('read', { pixels: [[1, 2, 3]] }, options);
await refused.waitUntilFinished(events, PATIENCE).catch(({ message }) => console.log(`refused: ${message}`));

worker.disconnect();
await Promise.all([once(worker, 'exit'), queue.close(), events.close()]);

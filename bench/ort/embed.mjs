// One measurement of run.mjs, in its own process: node embed.mjs '{"project", "folder", "dtype", "batch", "texts"}'.
// Embeds texts with the Transformers.js installed in `project`, and prints times, memory and delays as JSON.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { quantile } from 'd3-array';

/** Number of compared elements of each vector. */
const COMPARED = 8;

const { project, folder, dtype, batch, texts: count } = JSON.parse(process.argv[2]);
const path = createRequire(join(project, 'package.json')).resolve('@huggingface/transformers');
const { env, pipeline } = await import(pathToFileURL(path).href);
env.allowRemoteModels = false;
env.localModelPath = dirname(folder);

const texts = JSON.parse(readFileSync(join(folder, 'texts.json'), 'utf8')).slice(0, count);
const extract = await pipeline('feature-extraction', basename(folder), { dtype });

/** Milliseconds between turns of the event loop during a run. @type {number[]} */
const turns = [];
const session = extract.model.sessions.model;
const run = session.run.bind(session);
session.run = async (/** @type {unknown[]} */ ...args) => {
  let last = performance.now();
  const note = () => {
    const now = performance.now();
    turns.push(now - last);
    last = now;
  };
  const timer = setInterval(note, 1);
  try {
    return await run(...args);
  } finally {
    clearInterval(timer);
    note();
  }
};

const vectors = [];
const delays = monitorEventLoopDelay({ resolution: 1 });
delays.enable();
const begin = performance.now();
for (let at = 0; at < texts.length; at += batch) {
  const result = await extract(texts.slice(at, at + batch), { pooling: 'mean', normalize: true });
  vectors.push(...result.tolist().map((/** @type {number[]} */ vector) => vector.slice(0, COMPARED)));
}
const seconds = (performance.now() - begin) / 1000;
// Delays are recorded when the event loop turns again.
await sleep(10);
delays.disable();

await sleep(1000);
const used = process.cpuUsage();
await sleep(1000);
const { user, system } = process.cpuUsage(used);

console.log(
  JSON.stringify({
    seconds,
    peakBytes: process.resourceUsage().maxRSS * 1024,
    delayMs: delays.percentile(99) / 1e6,
    runDelayMs: quantile(turns, 0.99),
    longestMs: Math.max(...turns),
    idleMs: (user + system) / 1000,
    vectors,
  }),
);

// One measurement of run.mjs, in its own process: node worker.mjs '{"task", ...}'. Prints JSON; see types.d.mts.

import { createHash } from 'node:crypto';
import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { median } from 'd3-array';
import { open, prepare } from './engines.mjs';
import { memoryOf } from './process-memory.mjs';

/** @typedef {import('./types.d.mts').Choice} Choice */

/** Runs are repeated for this long, and at least this often. */
const [RUNS_MS, RUNS] = [1500, 9];

/** The same for a turn between processes. */
const [TURN_MS, TURN_RUNS] = [100, 3];

/** A store is complete when nothing about it has changed for this long. */
const [QUIET_MS, POLL_MS] = [500, 5];

/** Time for threads to come to rest after a run. */
const SETTLED_MS = 1000;

/** Runs before the clock starts. */
const WARM_UP = 5;

const digestOf = (/** @type {Uint8Array} */ bytes) => createHash('sha256').update(bytes).digest('hex');

/** Collects garbage: what is left belongs to the model. */
async function collect() {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc');
  for (let i = 0; i < 3; i++) {
    gc();
    await sleep(20);
  }
}

/** @template T @param {() => Promise<T>} work @returns {Promise<[T, number]>} with its milliseconds */
async function timed(work) {
  const start = performance.now();
  const result = await work();
  return [result, performance.now() - start];
}

/** One run, without the time of its inputs. @param {import('./engines.mjs').Opened} model */
async function runOnce(model) {
  const feeds = model.feeds();
  return timed(() => model.run(feeds));
}

/** @param {Choice} choice */
async function firstRun(choice) {
  await prepare(choice.engine);
  const [model, loadMs] = await timed(() => open(choice));
  const [output, firstMs] = await runOnce(model);
  return { model, loadMs, firstMs, digest: digestOf(output) };
}

/** The median of runs for a time, and of a number at least. @param {import('./engines.mjs').Opened} model */
async function repeated(model, ms = RUNS_MS, runs = RUNS) {
  const feeds = model.feeds();
  const times = [];
  for (const start = performance.now(); times.length < runs || performance.now() - start < ms; ) {
    times.push((await timed(() => model.run(feeds)))[1]);
  }
  return /** @type {number} */ (median(times));
}

/** @param {Choice} choice @returns {Promise<import('./types.d.mts').LoadSample>} */
async function load(choice) {
  const { model, ...times } = await firstRun(choice);
  return { ...times, runMs: await repeated(model), memory: model.memory };
}

/** The state of a store, and its size. @param {string} folder */
function stateOf(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const sizes = files.map(({ parentPath, name }) => [name, statSync(join(parentPath, name)).size]);
  return { text: JSON.stringify(sizes), bytes: sizes.reduce((sum, [, size]) => sum + Number(size), 0) };
}

/** @param {Choice & { cache: string }} choice @returns {Promise<import('./types.d.mts').FillSample>} */
async function fill(choice) {
  const { model, ...times } = await firstRun(choice);
  const start = performance.now();
  let [last, writtenMs] = [stateOf(choice.cache), 0];
  for (let now = start; now - start < writtenMs + QUIET_MS || last.bytes === 0; now = performance.now()) {
    await sleep(POLL_MS);
    const state = stateOf(choice.cache);
    if (state.text !== last.text) [last, writtenMs] = [state, performance.now() - start];
    if (now - start > 60_000) throw new Error(`nothing has been written into ${choice.cache}`);
  }
  return { ...times, runMs: await repeated(model), memory: model.memory, writtenMs, bytes: last.bytes };
}

/** Loads, runs once, and once more for each line of its input; lives until that ends. The parent reads its memory. @param {Choice} choice */
async function hold(choice) {
  const model = choice.engine === 'none' ? undefined : (await firstRun(choice)).model;
  await collect();
  console.log('loaded');
  for await (const _ of createInterface(process.stdin)) {
    if (model !== undefined) await runOnce(model);
    await collect();
    console.log('ran');
  }
}

/** Loads, and runs for a short time for each line of its input: prints the milliseconds of a run. @param {Choice} choice */
async function turns(choice) {
  const { model } = await firstRun(choice);
  for (let i = 0; i < WARM_UP; i++) await runOnce(model);
  console.log('loaded');
  for await (const _ of createInterface(process.stdin)) console.log(await repeated(model, TURN_MS, TURN_RUNS));
}

/** Context switches of the threads that the addon starts. */
function switches() {
  const own = readdirSync('/proc/self/task').filter((task) => readFileSync(`/proc/self/task/${task}/comm`, 'utf8').startsWith('webnn'));
  const count = (/** @type {string} */ task) => {
    const all = readFileSync(`/proc/self/task/${task}/status`, 'utf8').matchAll(/_ctxt_switches:\s+(\d+)/g);
    return [...all].reduce((sum, [, number]) => sum + Number(number), 0);
  };
  return { threads: own.length, switches: own.reduce((sum, task) => sum + count(task), 0) };
}

/** @param {Choice & { seconds: number }} choice @returns {Promise<import('./types.d.mts').IdleSample>} */
async function idle({ seconds, ...choice }) {
  const { model } = await firstRun(choice);
  for (let i = 0; i < WARM_UP; i++) await runOnce(model);
  await sleep(SETTLED_MS);
  const before = switches();
  await sleep(1000 * seconds);
  const after = switches();
  return { threads: after.threads, switches: after.switches - before.switches };
}

/** @param {Choice & { idle: number }} choice @returns {Promise<import('./types.d.mts').ReleaseSample>} */
async function release(choice) {
  await collect();
  const before = memoryOf('self').resident;
  const { model, digest } = await firstRun(choice);
  for (let i = 0; i < WARM_UP; i++) await runOnce(model);
  await collect();
  const loaded = memoryOf('self').resident;
  await sleep(choice.idle + SETTLED_MS);
  await collect();
  const released = memoryOf('self').resident;
  const [output, nextMs] = await runOnce(model);
  return { before, loaded, released, nextMs, isSame: digestOf(output) === digest };
}

/** @param {Choice & { seconds: number, perSecond: number }} choice @returns {Promise<import('./types.d.mts').TinySample>} */
async function tiny({ seconds, perSecond, ...choice }) {
  // Without an engine, only the timer.
  const model = choice.engine === 'none' ? { feeds: () => ({}), run: async () => new Uint8Array() } : (await firstRun(choice)).model;
  const feeds = model.feeds();
  for (let i = 0; i < WARM_UP; i++) await model.run(feeds);
  await sleep(SETTLED_MS);
  const times = [];
  const [cpu, start] = [process.cpuUsage(), performance.now()];
  for (let i = 1; i <= seconds * perSecond; i++) {
    await sleep(start + (1000 * i) / perSecond - performance.now());
    times.push((await timed(() => model.run(feeds)))[1]);
  }
  const { user, system } = process.cpuUsage(cpu);
  return { cpuShare: (user + system) / 1000 / (performance.now() - start), medianMs: /** @type {number} */ (median(times)) };
}

/** Reads a file from its beginning. @param {{ file: string }} parameters */
async function read({ file }) {
  const [descriptor, buffer] = [openSync(file, 'r'), Buffer.alloc(4 << 20)];
  const start = performance.now();
  while (readSync(descriptor, buffer) > 0);
  const ms = performance.now() - start;
  closeSync(descriptor);
  return { ms };
}

/** @param {Choice} choice @returns {Promise<import('./types.d.mts').Abilities>} */
async function probe({ cache, ...choice }) {
  const can = async (/** @type {Partial<Choice>} */ option) => {
    try {
      await open({ ...choice, ...option });
      return true;
    } catch (error) {
      if (/** @type {{ code?: string }} */ (error).code === 'ERR_WEBNN_UNKNOWN_OPTION') return false;
      throw error;
    }
  };
  return { cache: await can({ cache }), idle: await can({ idle: 1000 }) };
}

/** @type {Record<string, (parameters: any) => Promise<unknown>>} */
const TASKS = { load, fill, hold, turns, idle, release, tiny, read, probe };

const { task, ...parameters } = JSON.parse(process.argv[2]);
const sample = await TASKS[task](parameters);
if (sample !== undefined) console.log(JSON.stringify(sample));
process.exit();

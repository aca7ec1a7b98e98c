import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import { test } from 'node:test';
import { systemInfo } from '../../inspect.js';
import { resultOf } from './helpers.mjs';

/**
 * Counts the threads that compute for a context with the given options. Where the system does not list the names of
 * threads, nothing but the results can be looked at.
 */
const PROGRAM = `
import { existsSync, readdirSync, readFileSync } from 'node:fs';
const names = () => readdirSync('/proc/self/task').flatMap((id) => {
  try {
    return [readFileSync('/proc/self/task/' + id + '/comm', 'utf8').trim()];
  } catch {
    return []; // it ended in the meantime
  }
});
const count = () => names().filter((name) => /^webnn-[0-9]+$/.test(name)).length;
const isListed = existsSync('/proc/self/task');
/**
 * Counts once \`expected\` are there and stay: a thread has the name of the one that started it until it first gets a core,
 * which can take a while.
 */
async function countOf(expected) {
  if (!isListed) return -1;
  const deadline = Date.now() + 20_000;
  let [last, since] = [count(), Date.now()];
  while (Date.now() < deadline && (last !== expected || Date.now() - since < 300)) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    const now = count();
    if (now !== last) [last, since] = [now, Date.now()];
  }
  return last;
}
async function use(options) {
  const context = await helpers.ml.createContext({ accelerated: false, ...options });
  const { run, links, y, x } = await helpers.slowGraph(context, 20);
  context.writeTensor(x, new Float32Array(helpers.SLOW_ELEMENTS).fill(1));
  run();
  const [value] = await helpers.read(context, y);
  if (Math.abs(value - helpers.chained(1, links)) > 1e-3) throw new Error('wrong result ' + value);
  return context;
}
`;

/** Threads of a process that has one context, which is needed until they are counted; as many as `expected` are waited for. */
const threadsOf = (options, env, expected) =>
  resultOf(
    `${PROGRAM}
     const context = await use(${JSON.stringify(options)});
     console.log(await countOf(${expected}));
     context.destroy();`,
    { env: { WEBNN_NUM_THREADS: '', ...env } },
  );

/** Whether threads can be counted here. */
const isLinux = process.platform === 'linux';

for (const [what, options, env, expected] of [
  ['numThreads', { numThreads: 3 }, {}, 3],
  ['the smallest numThreads', { numThreads: 1 }, {}, 1],
  ['numThreads is not halved for low power', { numThreads: 4, powerPreference: 'low-power' }, {}, 4],
  ['WEBNN_NUM_THREADS', {}, { WEBNN_NUM_THREADS: '5' }, 5],
  ['WEBNN_NUM_THREADS is halved for low power', { powerPreference: 'low-power' }, { WEBNN_NUM_THREADS: '6' }, 3],
  ['half of one thread is one', { powerPreference: 'low-power' }, { WEBNN_NUM_THREADS: '1' }, 1],
  ['WEBNN_NUM_THREADS for high performance', { powerPreference: 'high-performance' }, { WEBNN_NUM_THREADS: '2' }, 2],
  ['numThreads is stronger than WEBNN_NUM_THREADS', { numThreads: 2 }, { WEBNN_NUM_THREADS: '6' }, 2],
]) {
  test(`number of threads: ${what}`, async () => {
    assert.equal(await threadsOf(options, env, expected), isLinux ? expected : -1);
  });
}

test('the default number of threads fits the machine, half of it for low power', async () => {
  const count = await threadsOf({}, {}, systemInfo().threads);
  if (isLinux) {
    assert.ok(count >= 1 && count <= availableParallelism(), `${count} threads`);
  }
  const half = isLinux ? Math.max(1, Math.floor(count / 2)) : -1;
  assert.equal(await threadsOf({ powerPreference: 'low-power' }, {}, half), half);
});

test('contexts share threads, and threads end with the last context that uses them', async () => {
  const counts = await resultOf(
    `${PROGRAM}
     const counts = [];
     // A function of its own, which leaves no context in a register.
     const useSome = async () => {
       const contexts = [];
       for (const numThreads of [3, 3, 3, 2]) contexts.push(await use({ numThreads }));
       counts.push(await countOf(5));
       for (const context of contexts) context.destroy();
     };
     await useSome();
     if (isListed) await helpers.collectUntil(() => count() === 0, 'all threads have ended');
     counts.push(isListed ? count() : -1);
     console.log(JSON.stringify(counts));`,
    { flags: ['--expose-gc'], env: { WEBNN_NUM_THREADS: '' } },
  );
  assert.deepEqual(counts, isLinux ? [5, 0] : [-1, -1]);
});

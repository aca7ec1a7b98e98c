// What runs take of the event loop, and of a processor when nothing runs.

import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { test } from 'node:test';
import { InferenceSession, Tensor } from 'webnn-node-ort';
import { BUSY, products, runProgram } from './support.mjs';

const float32 = (data, dims) => new Tensor('float32', Float32Array.from(data), dims);

test('a run leaves the event loop free', async () => {
  const session = await InferenceSession.create(products(512, 20));
  const feeds = { x: float32(new Float32Array(512 * 512).fill(1), [512, 512]) };
  await session.run(feeds);
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  const begin = performance.now();
  const { y } = await session.run(feeds);
  const time = performance.now() - begin;
  delays.disable();
  assert.ok(
    y.data.every((value) => value === 1),
    'sums of powers of two are exact',
  );
  assert.ok(delays.max / 1e6 < time / 2, `the event loop waited ${delays.max / 1e6} ms of a run of ${time} ms`);
});

/** Threads that have nothing to do look for work for a moment; after that, the process is watched. */
const [REST_MS, WATCHED_MS] = [200, 1000];

/** The part of a processor that a process without work may take: timers and the collector of garbage. */
const IDLE = 0.1;

test('the process is idle when nothing runs', async () => {
  const { stdout } = await runProgram(`${BUSY}
    await session.run(feeds);
    await new Promise((resolve) => setTimeout(resolve, ${REST_MS}));
    const before = process.cpuUsage();
    await new Promise((resolve) => setTimeout(resolve, ${WATCHED_MS}));
    const { user, system } = process.cpuUsage(before);
    console.log((user + system) / 1000);`);
  assert.ok(Number(stdout) < IDLE * WATCHED_MS, `${stdout} ms of a processor in ${WATCHED_MS} ms without work`);
});

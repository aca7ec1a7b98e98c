import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resultOf } from './helpers.mjs';

/** The bound that the package promises for the delay of the event loop, in milliseconds. */
const PROMISED_DELAY = 5;

/** Tries: whether this process gets a core in time is up to everything else that runs on the machine. */
const TRIES = 4;

/**
 * Measures the event loop of a quiet process while a promise is pending: how late a timer of one millisecond
 * fires, next to how late it fires while nothing is going on.
 */
const MEASURE = `
import { monitorEventLoopDelay } from 'node:perf_hooks';
async function delaysDuring(begin) {
  const monitor = monitorEventLoopDelay({ resolution: 1 });
  monitor.enable();
  await helpers.until(() => monitor.count > 0, 'the first delay that is measured');
  monitor.reset();
  const start = performance.now();
  const end = begin();
  const called = performance.now() - start;
  await end;
  const duration = performance.now() - start;
  monitor.disable();
  // The histogram holds whole intervals: one millisecond of them is wanted.
  const [p50, p99, max] = [monitor.percentile(50), monitor.percentile(99), monitor.max].map((ns) => ns / 1e6 - 1);
  return { duration, called, p50, p99, max };
}
`;

/** The try with the smallest maximum; every try must show a loop that runs. */
async function bestOf(t, source) {
  const tries = [];
  for (let i = 0; i < TRIES; i++) {
    const result = await resultOf(MEASURE + source);
    tries.push(result);
    const { duration, called, p50, p99, max } = result;
    const text = [duration, called, p50, p99, max].map((value) => value.toFixed(1));
    t.diagnostic(`work ${text[0]} ms, call ${text[1]} ms, delay p50 ${text[2]} ms, p99 ${text[3]} ms, max ${text[4]} ms`);
    if (max < PROMISED_DELAY) {
      break;
    }
  }
  return tries.reduce((a, b) => (b.max < a.max ? b : a));
}

/** The typical delay keeps the promise; a thread that is blocked would show a maximum as long as the work. */
function checkDelays({ duration, called, p50, max }, shortest) {
  assert.ok(duration > shortest, `the work took only ${duration} ms`);
  assert.ok(p50 < PROMISED_DELAY, `median delay ${p50} ms`);
  assert.ok(max < duration / 4, `the event loop stood still for ${max} ms of ${duration} ms`);
  assert.ok(called < duration / 4, `the call took ${called} ms of ${duration} ms`);
}

test('the event loop runs while a dispatch of a second does', async (t) => {
  const best = await bestOf(
    t,
    `const context = await helpers.ml.createContext({ numThreads: 1 });
     const { run, y } = await helpers.slowGraph(context, 1000);
     await context.readTensor(y);
     console.log(JSON.stringify(await delaysDuring(() => (run(), context.readTensor(y)))));`,
  );
  checkDelays(best, 300);
});

test('the event loop runs while a large graph is compiled', async (t) => {
  const best = await bestOf(
    t,
    // Folding a chain of operators on a large constant is work of the compiler.
    `const context = await helpers.ml.createContext({ numThreads: 1 });
     const builder = new helpers.MLGraphBuilder(context);
     let y = builder.constant(helpers.operand(1 << 22), new Float32Array(1 << 22).fill(1));
     for (let i = 0; i < 60; i++) y = builder.sin(y);
     y = builder.add(y, builder.input('x', helpers.operand(1)));
     console.log(JSON.stringify(await delaysDuring(() => builder.build({ y }))));`,
  );
  checkDelays(best, 100);
});

// Half a minute of `npm run soak -- api` on the GPU that there is.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runNode } from '../lib/processes.mjs';
import { PATIENCE } from '../lib/wait.mjs';
import { root } from '../../scripts/process.mjs';
import { growthOf, LIMITS, slopeOf } from '../soak/growth.mjs';

/** As `npm run soak -- api` has it: in arenas of their own, threads that are gone leave memory that is free and still resident. */
const ONE_ARENA = { MALLOC_ARENA_MAX: '1' };

/** Runs the soak; gives its exit code and what it says. */
async function soak(...args) {
  const { code, stdout, stderr } = await runNode(['--expose-gc', 'scripts/soak/api.mjs', ...args], { cwd: root, env: ONE_ARENA });
  return { code, text: stdout + stderr };
}

test('half a minute of random actions: right results, nothing that grows', { timeout: PATIENCE }, async () => {
  const { code, text } = await soak('--minutes', '0.5', '--device', 'gpu', '--graphs', '8');
  assert.equal(code, 0, text);
  const compared = Number(/; (\d+) results compared/.exec(text)?.[1]);
  assert.ok(compared > 50, text);
  assert.match(text, /"loseDevice":[1-9]/);
  assert.doesNotMatch(text, /panicked/);
});

test('what cannot be understood is told', async () => {
  for (const [args, message] of /** @type {[string[], RegExp][]} */ ([
    [['--minutes', '0'], /--minutes is 0, expected a positive number/],
    [['--device', 'tpu'], /--device is tpu, expected cpu or gpu/],
    [['--without', 'nothing'], /--without names nothing, expected some of the actions/],
    [['--graphs', '0'], /--graphs is 0, expected a positive integer/],
    [['--seed', 'x'], /--seed is x, expected an integer/],
  ])) {
    const { code, text } = await soak(...args);
    assert.equal(code, 2, text);
    assert.match(text, message);
  }
});

test('growth is the slope after the warm-up, whatever one sample says', () => {
  assert.equal(
    slopeOf([
      [0, 1],
      [1, 3],
      [2, 90],
      [3, 7],
      [4, 9],
    ]),
    2,
  );
  const samples = Array.from({ length: 31 }, (_, i) => ({
    minutes: i,
    // Caches fill for ten minutes; files are left open all the time.
    rss: 100 + 50 * Math.min(i, 10) + (i === 20 ? 500 : 0),
    heap: 5 + i,
    external: 3,
    handles: 20 + i,
    threads: 8,
  }));
  const growth = Object.fromEntries(growthOf(samples).map((one) => [one.name, one]));
  assert.deepEqual(Object.keys(growth), Object.keys(LIMITS));
  assert.ok(Math.abs(growth.rss.growth) < 1e-9 && growth.threads.growth === 0);
  assert.ok(growth.heap.growth > growth.heap.allowed && growth.handles.growth > growth.handles.allowed);
});
